// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/store"
)

// NotFreshError is the error of a read that waited in vain for a resource version: with
// [NotOlderThan], or for a pending write. Match a pointer to it with errors.As.
type NotFreshError = store.NotFreshError

// UnansweredError is the error of a read after a write whose outcome is not known, if the API server does
// not say it either.
type UnansweredError = store.UnansweredError

// ReadOption is an option of a Get and of a List.
type ReadOption interface {
	client.GetOption
	client.ListOption
}

// NotOlderThan makes a read of the cache wait until the watch has reached a resource version, for at
// most ten seconds: then the error is a [*NotFreshError]. A Get does not wait if the object itself is
// at that resource version or a newer one. A List with NotOlderThan begins at the first page, and
// must not have a Continue token. A live read passes the resource version to the API server, where
// it has the same meaning.
func NotOlderThan(resourceVersion string) ReadOption { return notOlderThan(resourceVersion) }

type notOlderThan string

// ApplyToGet implements client.GetOption.
func (v notOlderThan) ApplyToGet(o *client.GetOptions) {
	raw := metav1.GetOptions{}
	if o.Raw != nil {
		raw = *o.Raw
	}
	raw.ResourceVersion = string(v)
	o.Raw = &raw
}

// ApplyToList implements client.ListOption.
func (v notOlderThan) ApplyToList(o *client.ListOptions) {
	raw := metav1.ListOptions{}
	if o.Raw != nil {
		raw = *o.Raw
	}
	raw.ResourceVersion, raw.ResourceVersionMatch = string(v), metav1.ResourceVersionMatchNotOlderThan
	o.Raw = &raw
}

// AsCached makes a read of the cache show the state of the watch, without pending writes. It never
// waits. controller-runtime's option DisableReadYourWritesConsistency does the same.
var AsCached ReadOption = asCached{}

type asCached struct{}

// ApplyToGet implements client.GetOption.
func (asCached) ApplyToGet(o *client.GetOptions) { o.DisableReadYourWritesConsistency = true }

// ApplyToList implements client.ListOption.
func (asCached) ApplyToList(o *client.ListOptions) { o.DisableReadYourWritesConsistency = true }
