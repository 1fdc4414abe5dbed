// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

var (
	// ErrShared says that the state cannot be replaced as a whole.
	ErrShared = errors.New("the etcd of this server is not its own: delete objects through the server")

	// ErrForeign says that a snapshot is of other contents, or nil.
	ErrForeign = errors.New("the snapshot is of another environment: take it with Snapshot of this one")
)

// Contents are all that a server has stored in an etcd of its own, and what it needs to replace it as a whole.
type Contents struct {
	gate      *Gate
	initial   *Snapshot // as Start left it; set before Start returns
	snapshots *origin
	turn      *turn
	parts     Parts
}

// New returns the Contents behind a gate, and what acts on them. The server ends with run.
func New(run context.Context, gate *Gate, parts Parts) *Contents {
	return &Contents{gate: gate, snapshots: new(origin), turn: newTurn(run), parts: parts}
}

// Parts act on the contents, and are awaited when these are replaced.
type Parts struct {
	// Kinds remember something of what they have stored.
	Kinds interface {
		Overwritten(resource schema.GroupResource, name types.NamespacedName)
	}
	// Informers are the informers from which the server reads, by resource.
	Informers func() map[schema.GroupResource]*serving.Followed
	Catalog   *catalog.Catalog
	Custom    *custom.Stores
	Installer *custom.Installer
	// APIServices lead to other servers.
	APIServices interface {
		// Informer returns the informer of APIServices, nil if nobody has asked for one yet.
		Informer() cache.SharedIndexInformer
		// Routed reports whether requests go where the informer's APIService says.
		Routed(name string, informer cache.SharedIndexInformer) bool
	}
	Mapper interface{ Reset() } // of admission
	// Policies read anew what there is.
	Policies []interface {
		Renew(ctx context.Context) error
	}
}

// Close refuses further work on the whole state, and waits for work under way.
func (s *Contents) Close() { s.turn.callers.Close() }

// AwaitCache has a replacement of the state wait until the cache that c reads does not show any older state of kinds. The
// function ends it.
func (s *Contents) AwaitCache(c client.Client, kinds []client.Object) (end func(), err error) {
	awaited := &awaitedCache{c, map[schema.GroupResource][]client.Object{}}
	for _, kind := range kinds {
		gvk, err := c.GroupVersionKindFor(kind)
		if err != nil {
			return nil, fmt.Errorf("what kind a %T is of: %w", kind, err)
		}
		mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("find the resource of %s: %w", gvk, err)
		}
		resource := mapping.Resource.GroupResource()
		awaited.kinds[resource] = append(awaited.kinds[resource], kind.DeepCopyObject().(client.Object))
	}
	return s.gate.await(awaited), nil
}
