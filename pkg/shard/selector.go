// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The fields of Options.Key that are no labels.
const (
	namespaceField = "metadata.namespace"
	uidField       = "metadata.uid"
)

// labelOf returns the label that a field is, if it is one.
func labelOf(field string) (label string, is bool) {
	label, begins := strings.CutPrefix(field, "metadata.labels['")
	label, ends := strings.CutSuffix(label, "']")
	return label, begins && ends
}

// namespaceOrName returns the key of an object, or of a request for it, if the key is metadata.namespace.
func namespaceOrName(of client.ObjectKey) string { return cmp.Or(of.Namespace, of.Name) }

// Key returns the field that is the key of objects, see Options.Key. A cache looks for this method.
func (r *Ring) Key() string { return r.options.Key }

// KeyOf returns the key of an object. It reads the metadata alone.
func (r *Ring) KeyOf(obj metav1.Object) string {
	if label, isLabel := labelOf(r.options.Key); isLabel {
		return obj.GetLabels()[label]
	}
	if r.options.Key == uidField {
		return string(obj.GetUID())
	}
	return namespaceOrName(client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetName()})
}

// Selector returns a selector of the objects whose keys have a term. It is for Whole in the settings of a kind in a cache
// (Tuning.ByObject), which then keeps the part of this replica. The cache drops the other objects when they come. It lists the kind again
// a second after the ring has changed, and once more if it started before the Ring had joined. Until that list is complete, a List returns
// the part of before, and a Get of an object that is missing returns a *cache.NotSyncedError. After it, a Get returns a
// *cache.OutsideScopeError, or NotFound if the name does not tell the key. None of these is a sign that the object was deleted: clean-up
// needs finalizers. The controllers of the kind need a [Ring.Source].
func (r *Ring) Selector() fields.Selector {
	what := fmt.Sprintf("the keys of member %s of ring %s", r.options.Member, r.options.Ring)
	return part{fields.OneTermEqualSelector("the ring", what), r}
}

// part is the selector of a ring. No API server knows its field, so a selector that it is a part of is refused.
type part struct {
	fields.Selector
	ring *Ring
}

// Matches implements fields.Selector. A cache asks it about objects, and about namespaces and names alone.
func (p part) Matches(of fields.Fields) bool {
	obj, known := of.(metav1.Object)
	switch {
	case known:
		return p.ring.termNow(p.ring.KeyOf(obj)) > 0
	case p.ring.options.Key != namespaceField:
		return true // a name does not tell
	}
	return p.ring.termNow(namespaceOrName(client.ObjectKey{Namespace: of.Get(namespaceField), Name: of.Get(metav1.ObjectNameField)})) > 0
}

// Changed returns a channel that is closed when Matches may report something else. A cache looks for this method.
func (p part) Changed() <-chan struct{} { return p.ring.Changed() }

// String implements fields.Selector. The text is for messages alone.
func (p part) String() string { return p.Requirements()[0].Value }

// Transform implements fields.Selector.
func (p part) Transform(fields.TransformFunc) (fields.Selector, error) { return p, nil }

// DeepCopySelector implements fields.Selector.
func (p part) DeepCopySelector() fields.Selector { return p }
