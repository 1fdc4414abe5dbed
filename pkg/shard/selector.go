// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
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

// keyOf returns the key of an object, or of a request for it: its namespace, or its name if it has none.
func keyOf(of client.ObjectKey) string { return cmp.Or(of.Namespace, of.Name) }

// Key returns the field that is the key of objects, see Options.Key.
func (r *Ring) Key() string { return r.options.Key }

// KeyOf returns the key of an object. It reads the metadata alone.
func (r *Ring) KeyOf(obj metav1.Object) string {
	if label, isLabel := labelOf(r.options.Key); isLabel {
		return obj.GetLabels()[label]
	}
	if r.options.Key == uidField {
		return string(obj.GetUID())
	}
	return keyOf(client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetName()})
}

// Selector returns a selector of the objects whose keys have a term. It is for Whole in the settings of a kind in a cache
// (Tuning.ByObject), which then keeps the part of this replica. The cache drops the other objects when they come. It lists the kind again
// a second after the ring has changed, so each change costs a list of all objects. Until then a Get of what it does not have returns a
// *cache.NotSyncedError. Later it returns a *cache.OutsideScopeError, or NotFound if the name does not tell the key: that is no sign that the
// object was deleted, so clean-up needs finalizers. The controllers of the kind need a [Ring.Source].
func (r *Ring) Selector() fields.Selector { return part{r} }

// part is the selector of a ring. It evaluates the field that is the key, and metadata.name if that is metadata.namespace.
type part struct{ ring *Ring }

// Matches implements fields.Selector. What does not have the field may match.
func (p part) Matches(of fields.Fields) bool {
	if !of.Has(p.ring.options.Key) {
		return true
	}
	key := of.Get(p.ring.options.Key)
	if p.ring.options.Key == namespaceField {
		key = keyOf(client.ObjectKey{Namespace: key, Name: of.Get(metav1.ObjectNameField)})
	}
	p.ring.mu.Lock()
	defer p.ring.mu.Unlock()
	return p.ring.termOf(key) > 0
}

// Changed returns a channel that is closed when Matches may report something else. A cache looks for this method.
func (p part) Changed() <-chan struct{} { return p.ring.Changed() }

// String implements fields.Selector. The text is for messages alone.
func (p part) String() string {
	return fmt.Sprintf("the keys of member %s of ring %s", p.ring.options.Member, p.ring.options.Ring)
}

// Requirements implements fields.Selector. No API server has the field, so a selector that this one is a part of is refused.
func (p part) Requirements() fields.Requirements {
	return fields.Requirements{{Field: "the ring", Operator: selection.In, Value: p.String()}}
}

// Empty implements fields.Selector.
func (p part) Empty() bool { return false }

// RequiresExactMatch implements fields.Selector.
func (p part) RequiresExactMatch(string) (string, bool) { return "", false }

// Transform implements fields.Selector.
func (p part) Transform(fields.TransformFunc) (fields.Selector, error) { return p, nil }

// DeepCopySelector implements fields.Selector.
func (p part) DeepCopySelector() fields.Selector { return p }
