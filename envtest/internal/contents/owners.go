// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
)

// maxRemoved bounds how many removed objects are remembered beside those of the newest Reset or Restore: some 5 MiB.
const maxRemoved = 50_000

// removedOwners is an admission plugin. It refuses an owner reference to an object that Reset or Restore has removed, because
// only a controller that has not seen the removal can write one.
type removedOwners struct {
	*admission.Handler

	mu   sync.Mutex
	uids map[types.UID]struct{} // guarded by mu; those of all but the newest replacement are at most maxRemoved
}

func newRemovedOwners() *removedOwners {
	return &removedOwners{Handler: admission.NewHandler(admission.Create, admission.Update), uids: map[types.UID]struct{}{}}
}

// replaced notes which objects a replacement of the state has removed and put there.
func (o *removedOwners) replaced(removed, put []types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.uids) > maxRemoved { // a controller is one replacement behind, seldom two
		clear(o.uids)
	}
	for _, uid := range removed {
		o.uids[uid] = struct{}{}
	}
	for _, uid := range put {
		delete(o.uids, uid)
	}
}

func (o *removedOwners) has(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.uids[uid]
	return ok
}

// Validate implements admission.ValidationInterface. It answers with a conflict. The controller then
// rereads its input.
func (o *removedOwners) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	before := ownersOf(a.GetOldObject())
	for _, owner := range ownersOf(a.GetObject()) {
		known := func(was metav1.OwnerReference) bool { return was.UID == owner.UID }
		if slices.ContainsFunc(before, known) || !o.has(owner.UID) {
			continue
		}
		return apierrors.NewConflict(a.GetResource().GroupResource(), a.GetName(), fmt.Errorf(
			"its owner %s %s with UID %s was removed when the environment was reset or restored: read the owner again", owner.Kind, owner.Name, owner.UID))
	}
	return nil
}

// ownersOf returns the owners of an object, which it shares; none for nil and for what is no object.
func ownersOf(obj runtime.Object) []metav1.OwnerReference {
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return object.GetOwnerReferences()
}
