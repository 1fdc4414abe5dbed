// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// Keep chooses what Reset leaves as it is. It gets the resource and the name of an object, and returns true if the object stays.
// The namespace of an object that stays, and its CustomResourceDefinition, stay too. It must not call the server, which waits with
// all writes until it has returned for each object.
type Keep func(resource schema.GroupResource, name types.NamespacedName) bool

// KeepCRDs keeps all CustomResourceDefinitions, but none of their objects.
func KeepCRDs() Keep { return KeepResources(stores.CRDs) }

// KeepResources keeps all objects of some resources.
func KeepResources(resources ...schema.GroupResource) Keep {
	return func(resource schema.GroupResource, _ types.NamespacedName) bool {
		return slices.Contains(resources, resource)
	}
}

// KeepNamespaces keeps namespaces with all that is in them.
func KeepNamespaces(names ...string) Keep {
	return func(resource schema.GroupResource, name types.NamespacedName) bool {
		if resource == corev1.Resource("namespaces") {
			return slices.Contains(names, name.Name)
		}
		return slices.Contains(names, name.Namespace)
	}
}

// Reset deletes everything but the objects from the time when Start returned, such as the CRDs of the options, and the
// objects that one of keep wants to stay. Objects that Start made, and somebody changed or deleted since, are as before. So
// suites can share one environment, and begin each spec with a clean slate.
//
// Reset works as Restore does.
func (e *Environment) Reset(ctx context.Context, keep ...Keep) error {
	c, err := e.contents()
	if err == nil {
		err = c.Reset(ctx, all(keep))
	}
	if err != nil {
		return fmt.Errorf("reset the environment: %w", err)
	}
	return nil
}

// contents returns what the environment has stored, or ErrNotRunning or ErrSharedState.
func (e *Environment) contents() (*contents.Contents, error) {
	r, err := e.parts()
	if err != nil {
		return nil, err
	}
	return r.server.Contents()
}

// all returns a Keep for the objects of all functions, nil if there are none.
func all(keep []Keep) func(schema.GroupResource, types.NamespacedName) bool {
	if len(keep) == 0 {
		return nil
	}
	return func(resource schema.GroupResource, name types.NamespacedName) bool {
		return slices.ContainsFunc(keep, func(k Keep) bool { return k(resource, name) })
	}
}

// Snapshot is what an environment stored at one moment: all objects, as etcd has them. It never changes, can be restored any
// number of times, and belongs to its holder: the environment keeps no reference to it. It may be used from several
// goroutines.
type Snapshot struct{ of contents.Snapshot }

// Len returns how many objects the snapshot has.
func (s *Snapshot) Len() int { return s.of.Len() }

// Bytes returns how much memory its objects take, encoded as etcd has them.
func (s *Snapshot) Bytes() int64 { return s.of.Bytes }

// Snapshot returns all that is stored at this moment. It takes as much memory as the encoded objects; see Snapshot.Bytes.
func (e *Environment) Snapshot(ctx context.Context) (*Snapshot, error) {
	c, err := e.contents()
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return &Snapshot{*s}, nil
}

// Restore brings back all objects of a snapshot of this environment, and deletes all others, in one step. It writes only what
// differs, in the storage itself: neither finalizers nor admission stop it, UIDs and times are as they were, and every watch
// sees what changes. Resource versions go on, so that informers stay right. An object that was deleted and made again since
// is deleted and added, and never modified, because it has another UID. Events expire after the time that they had left.
//
// When Restore returns, the server answers by the new state alone: roles, namespaces, webhooks, policies and CRDs that are gone
// have no effect any more, and their discovery documents are gone. Informers of clients learn it from their watches.
//
// Requests that write and arrive meanwhile wait until Restore is done. Writes under way are either done before, and undone, or
// refused with 429 and Retry-After, which client-go repeats. So nothing is stored in a namespace that is gone. Managers may run
// on. If a controller has not yet seen that an owner is removed, its writes for that owner are refused with a conflict; for writes
// without an owner reference, see AwaitCache. Users of AddUser keep their credentials. APIServices of the server itself follow its
// CRDs, and are not restored.
//
// If ctx ends early, either nothing has happened or the state is restored and parts of the server may not know yet; the error
// says which.
func (e *Environment) Restore(ctx context.Context, s *Snapshot) error {
	c, err := e.contents()
	switch {
	case errors.Is(err, ErrSharedState), err == nil && s == nil: // others have made the snapshot: with shared state there are none
		err = ErrForeignSnapshot
	case err == nil:
		err = c.Restore(ctx, &s.of)
	}
	if err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	return nil
}

// AwaitCache has Reset and Restore of a running environment wait until the cache of c shows the new state of kinds. They do
// not wait for objects that the cache does not have, because it may not select them. Writes
// before that get a conflict: a controller reconciles again, and sees the new state. So a manager that runs on makes no
// objects for removed ones, even where no owner reference tells.
//
// It is meant for the client of a manager, and for the kinds of its controllers in the representation that they watch. A kind
// that the client does not read from the cache has no effect. The function that is returned ends it; call it before the manager
// stops. The error is ErrNotRunning, ErrSharedState, or why a kind is not known. It may be called concurrently.
func (e *Environment) AwaitCache(c client.Client, kinds ...client.Object) (end func(), err error) {
	state, err := e.contents()
	if err == nil {
		end, err = state.AwaitCache(c, kinds)
	}
	if err != nil {
		return nil, fmt.Errorf("await a cache: %w", err)
	}
	return end, nil
}
