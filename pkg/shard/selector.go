// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Selector returns a selector of the objects whose keys have a term: by their namespaces, or by their names if they have none. It is for
// Whole in the settings of a kind in a cache (Tuning.ByObject), which then keeps the part of this replica. The cache drops the other
// objects when they come. It lists the kind again a second after the ring has changed, so each change costs a list of all objects. Until then
// a Get of what it does not have returns a *cache.NotSyncedError. The controllers of the kind need a [Ring.Source].
func (r *Ring) Selector() fields.Selector { return part{r} }

// part is the selector of a ring. It evaluates metadata.namespace and metadata.name.
type part struct{ ring *Ring }

// Matches implements fields.Selector.
func (p part) Matches(of fields.Fields) bool {
	key := keyOf(client.ObjectKey{Namespace: of.Get("metadata.namespace"), Name: of.Get(metav1.ObjectNameField)})
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
