// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Source lists and watches one resource in one representation. [Structured],
// [Unstructured] and [Metadata] make the three that there are, and nothing else tells the
// representations apart. It is safe for concurrent use.
type Source interface {
	// Example returns an empty object of the representation.
	Example() runtime.Object
	// List returns the list that the API server answers with.
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	// Watch returns a watch whose events may need Finish.
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// Finish turns an event of the watch into one with an object of the representation.
	// It may take long, because it decodes, and is called for several events at once.
	Finish(event watch.Event) watch.Event
}

// Target is the resource that a [Source] lists and watches, and the way to its API server.
type Target struct {
	// Config and HTTPClient make the requests. Config is not changed.
	Config     *rest.Config
	HTTPClient *http.Client
	// Scheme has the Go types of the kind and of its list. Only Structured needs it.
	Scheme *runtime.Scheme

	// Kind is the kind of the objects, and Resource the resource that serves them.
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Namespace is where the objects are. It is empty for all namespaces, and for a
	// cluster-scoped resource.
	Namespace string
}
