// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// source lists and watches one resource in one representation; it is all that
// tells the representations apart.
type source interface {
	// example returns an empty object of the representation.
	example() runtime.Object
	list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// finish makes of an event what the source is to yield. It is called for several
	// events at once.
	finish(watch.Event) watch.Event
}

// newSource returns the source for key. An empty namespace means all of them, or
// a cluster-scoped resource.
func newSource(o *Options, key Key, mapping *meta.RESTMapping, namespace string) (source, error) {
	switch key.Representation {
	case Structured:
		return newStructured(o, key.GroupVersionKind, mapping.Resource, namespace)
	case Unstructured:
		return newUnstructured(o, key.GroupVersionKind, mapping.Resource, namespace)
	case Metadata:
		return newMetadata(o, key.GroupVersionKind, mapping.Resource, namespace)
	}
	return nil, fmt.Errorf("unknown representation %d", key.Representation)
}
