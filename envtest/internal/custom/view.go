// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/signal"
)

// ErrNotEstablished says that the server accepted a definition but will not serve it.
var ErrNotEstablished = errors.New("the CustomResourceDefinition cannot be established")

// crdView has the CustomResourceDefinitions as the informer of the CRD server has them. The handler of custom
// resources reads the same informer, so that it cannot know less; a watch of our own could be ahead of it. It is safe for
// concurrent use.
type crdView struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration

	mu      sync.Mutex
	changed signal.Broadcast
	newest  map[string]*apiextensionsv1.CustomResourceDefinition // guarded by mu; by name
	deleted map[types.UID]bool                                   // guarded by mu
}

// viewCRDs begins to follow a running informer. The caller has to call close.
func viewCRDs(informer cache.SharedIndexInformer) (*crdView, error) {
	v := &crdView{
		informer: informer,
		newest:   map[string]*apiextensionsv1.CustomResourceDefinition{},
		deleted:  map[types.UID]bool{},
	}
	var err error
	v.registration, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    v.set,
		UpdateFunc: func(_, crd any) { v.set(crd) },
		DeleteFunc: v.remove,
	})
	if err != nil {
		return nil, fmt.Errorf("follow the CRD server's informer: %w", err)
	}
	return v, nil
}

// close ends following. The informer waits for the handler when it ends itself.
func (v *crdView) close() {
	_ = v.informer.RemoveEventHandler(v.registration) // fails only for handlers of other informers
}

// set notes a new or changed definition. A definition that replaced another of its name comes without the deletion
// of the old one.
func (v *crdView) set(obj any) {
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	v.mu.Lock()
	defer v.mu.Unlock()
	if before := v.newest[crd.Name]; before != nil && before.UID != crd.UID {
		v.deleted[before.UID] = true
	}
	v.newest[crd.Name] = crd
	v.changeLocked()
}

// remove notes that a definition is gone.
func (v *crdView) remove(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deleted[crd.UID] = true
	v.changeLocked()
}

func (v *crdView) changeLocked() {
	v.changed.Notify()
}

// waitEstablished returns when the definition, or a newer state of it, is established, or with an error when it cannot be.
func (v *crdView) waitEstablished(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	for {
		done, changed, err := v.established(crd)
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until it is established: %w", context.Cause(ctx))
		}
	}
}

// established reads the conditions of a definition, and returns a channel that is closed when they may have changed.
func (v *crdView) established(want *apiextensionsv1.CustomResourceDefinition) (bool, <-chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.deleted[want.UID] {
		return false, nil, fmt.Errorf("%w: it was deleted", ErrNotEstablished)
	}
	crd := v.newest[want.Name]
	if crd == nil || crd.UID != want.UID || crd.Generation < want.Generation {
		return false, v.changed.Wait(), nil
	}
	names := apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted)
	if names != nil && names.Status == apiextensionsv1.ConditionFalse {
		return false, nil, fmt.Errorf("%w: %s", ErrNotEstablished, names.Message)
	}
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), v.changed.Wait(), nil
}
