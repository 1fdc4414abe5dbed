// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

var (
	// ErrShared says that the state cannot be replaced as a whole.
	ErrShared = errors.New("the etcd of this server is not its own: delete objects through the server")

	// ErrForeign says that a snapshot is of other contents, or nil.
	ErrForeign = errors.New("the snapshot is of another environment: take it with Snapshot of this one")
)

// Contents are all that a server has stored, and what it needs to replace it as a whole. It is nil if the etcd is shared.
type Contents struct {
	etcd      *etcd.Server
	initial   *Snapshot // as Start left it; set before Start returns
	snapshots *origin
	gate      *gate
	turn      *turn
	parts     Parts // set before the server serves
	Removed   *removedOwners
	builtin   *builtinStores
}

// New returns the Contents of an exclusively owned etcd. The server ends with run.
func New(run context.Context, own *etcd.Server) *Contents {
	return &Contents{
		etcd: own, snapshots: new(origin), gate: &gate{}, turn: newTurn(run), builtin: newBuiltinStores(), Removed: newRemovedOwners(),
	}
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

// Attach tells what acts on the contents. It is called before the server serves.
func (s *Contents) Attach(to Parts) { s.parts = to }

// Close refuses further work on the whole state, and waits for work under way.
func (s *Contents) Close() {
	if s != nil {
		s.turn.callers.Close()
	}
}

// Track decorates the store of a built-in resource so that it is known.
func (s *Contents) Track(resource schema.GroupResource, below generic.StorageDecorator) generic.StorageDecorator {
	if s == nil {
		return below
	}
	return s.builtin.track(resource, below)
}

// Admit waits until nobody replaces the state. It returns the context of a write to this state, and how often the state was
// replaced before. With refused, Admit does not wait but returns that error.
func (s *Contents) Admit(ctx context.Context, refused error) (context.Context, uint64, error) {
	overtaken := refused
	if overtaken == nil {
		overtaken = custom.Overtaken()
	}
	for {
		// The context comes before the look at the gate: the state may be replaced between them.
		began, epoch := s.etcd.Request(ctx, overtaken)
		waited, err := s.gate.pass(ctx, refused)
		if err != nil || !waited {
			return began, epoch, err
		}
	}
}

// reads are the verbs that are answered while the state is replaced.
var reads = []string{"get", "list", "watch"}

// Wrap holds back what writes, and lets it write only to the state that it has seen.
func (s *Contents) Wrap(next http.Handler) http.Handler {
	if s == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !info.IsResourceRequest || slices.Contains(reads, info.Verb) {
			next.ServeHTTP(w, req)
			return
		}
		began, _, err := s.Admit(req.Context(), s.gate.hasty(info))
		switch {
		case apierrors.IsConflict(err):
			gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			responsewriters.ErrorNegotiated(err, crdserver.Codecs, gv, w, req)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, req.WithContext(began))
	})
}

// AwaitCache has a replacement of the state wait until the cache that c reads does not show any older state of kinds. The
// function ends it.
func (s *Contents) AwaitCache(c client.Client, kinds []client.Object) (end func(), err error) {
	if s == nil {
		return nil, ErrShared
	}
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
