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

	"github.com/tarn-dev/tarn/internal/projection"
)

// Source makes the requests below an informer's ListerWatcher: it lists and watches one resource in one representation. There are three: those of
// [Structured], [Unstructured] and [Metadata]. No other code of this package distinguishes the
// representations. A Source is safe for concurrent use.
type Source interface {
	// Example returns an empty object of the representation.
	Example() runtime.Object
	// List returns the list with which the API server answers.
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	// Watch returns a watch, whose events must go through Finish.
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// Finish returns the event with an object of the representation. It may take long, because it
	// decodes, and it is called for several events at the same time.
	Finish(event watch.Event) watch.Event
}

// Target is the resource that a [Source] lists and watches, and the API server that serves it.
type Target struct {
	// Config and HTTPClient make the requests. Config is not changed.
	Config     *rest.Config
	HTTPClient *http.Client
	// Scheme has the Go types of the kind and of its list. Only Structured needs it.
	Scheme *runtime.Scheme

	// Kind is the kind of the objects, and Resource the resource that serves them.
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Namespace is the namespace of the objects. It is empty for all namespaces, and for a
	// cluster-scoped resource.
	Namespace string
	// Rule says what is kept of the objects.
	Rule *projection.Rule
}
