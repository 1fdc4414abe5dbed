// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

var (
	// ErrShared says that the state cannot be replaced as a whole.
	ErrShared = errors.New("the etcd of this server is not its own: delete objects through the server")

	// ErrForeign says that a snapshot is of other contents, or nil.
	ErrForeign = errors.New("the snapshot is of another environment: take it with Snapshot of this one")
)

// The beginnings of keys that say more than that an object is there.
var (
	namespacePrefix  = keyPrefix(corev1.Resource("namespaces"))
	crdPrefix        = keyPrefix(stores.CRDs)
	apiServicePrefix = keyPrefix(apiServiceResource)
)

var apiServiceResource = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// keyPrefix is what the keys of a resource begin with.
func keyPrefix(resource schema.GroupResource) string {
	return stores.RegistryPrefix + "/" + stores.ResourcePrefix(resource) + "/"
}

// Contents are all that a server has stored, and what it needs to replace it as a whole. Nil are those of a server whose etcd may
// be shared with others.
type Contents struct {
	etcd      *etcd.Server
	run       context.Context // of the server
	initial   *Snapshot       // as Start left it; set before Start returns
	snapshots *origin
	gate      gate
	turn      chan struct{}    // has room for the one who works on the whole state
	users     serving.Requests // of turn
	parts     Parts            // set before the server serves
	Removed   *removedOwners

	mu      sync.Mutex
	builtin map[string]stores.LiveStore // guarded by mu; by resource prefix
}

// New are those of an etcd that belongs to one server, which ends with run.
func New(run context.Context, own *etcd.Server) *Contents {
	return &Contents{
		etcd: own, run: run, snapshots: new(origin), turn: make(chan struct{}, 1), builtin: map[string]stores.LiveStore{}, Removed: newRemovedOwners(),
	}
}

// Parts are what acts on the contents, and has to follow when these are replaced.
type Parts struct {
	// Kinds remember something of what they have stored.
	Kinds interface {
		Overwritten(resource schema.GroupResource, name types.NamespacedName)
	}
	// Informers are those from which the server reads, by resource.
	Informers func() map[schema.GroupResource]*serving.Followed
	Catalog   *catalog.Catalog
	Custom    *custom.Stores
	Installer *custom.Installer
	// APIServices lead to other servers.
	APIServices interface {
		// Informer is that of APIServices, nil if nobody has asked for one yet.
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

// Close lets nobody work on the whole state any more, and waits for who does.
func (s *Contents) Close() {
	if s != nil {
		s.users.Close()
	}
}

// Note decorates the store of a built-in resource so that it is known.
func (s *Contents) Note(resource schema.GroupResource, next generic.StorageDecorator) generic.StorageDecorator {
	if s == nil {
		return next
	}
	return func(
		config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := next(config, prefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.builtin[stores.ResourcePrefix(resource)] = stores.LiveStore{Resource: resource, Prefix: prefix, NewFunc: newFunc, Store: store}
		}
		return store, destroy, err
	}
}

// place is where an object is among the others.
type place struct {
	resource schema.GroupResource
	name     types.NamespacedName
	custom   bool
}

// locate reads a key.
func (s *Contents) locate(key string) place {
	parts := strings.Split(strings.TrimPrefix(key, stores.RegistryPrefix+"/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 1
	store, ok := s.builtin[parts[0]]
	if !ok {
		n = min(2, len(parts))
		store, ok = s.builtin[strings.Join(parts[:n], "/")]
	}
	at := place{resource: store.Resource, custom: !ok}
	if !ok {
		at.resource = schema.GroupResource{Group: parts[0], Resource: parts[n-1]}
	}
	switch parts = parts[n:]; len(parts) {
	case 0:
	case 1:
		at.name.Name = parts[0]
	default:
		at.name.Namespace, at.name.Name = parts[0], strings.Join(parts[1:], "/")
	}
	return at
}

// rank is higher for what others need.
func rank(key string) int {
	if strings.HasPrefix(key, namespacePrefix) || strings.HasPrefix(key, crdPrefix) {
		return 1
	}
	return 0
}

// follows reports whether an object is written by the server itself according to others: an APIService of its own.
func follows(entry etcd.Entry) bool {
	return strings.HasPrefix(entry.Key, apiServicePrefix) && metadataOf(entry.Value).Labels[autoregister.AutoRegisterManagedLabel] != ""
}

// protobufPrefix begins what is not stored as JSON.
const protobufPrefix = "k8s\x00"

// metadataOf reads the metadata of a stored object; they are the first field of all kinds. It is empty for what is no object.
func metadataOf(value []byte) metav1.ObjectMeta {
	var object metav1.PartialObjectMetadata
	if raw, ok := strings.CutPrefix(string(value), protobufPrefix); ok {
		var unknown runtime.Unknown
		if unknown.Unmarshal([]byte(raw)) == nil {
			_ = object.Unmarshal(unknown.Raw)
		}
	} else {
		_ = json.Unmarshal(value, &object)
	}
	return object.ObjectMeta
}

// gate holds requests that write while the state is replaced. The zero value is open.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{}              // guarded by mu; closed when it opens; nil if it is open
	caches map[*awaitedCache]struct{} // guarded by mu; it opens when they follow, and what comes before is refused
}

// close shuts the gate, which must be open, and returns the function that opens it.
func (g *gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := make(chan struct{})
	g.shut = shut
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = nil
		close(shut)
	}
}

// pass returns when the gate is open, and whether it was shut before. It does not wait, and returns refused, if there is such an error.
func (g *gate) pass(ctx context.Context, refused error) (waited bool, err error) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	switch {
	case shut == nil:
		return false, nil
	case refused != nil:
		return false, refused
	}
	select {
	case <-shut:
		return true, nil
	case <-ctx.Done():
		return true, fmt.Errorf("wait for the end of Reset or Restore: %w", context.Cause(ctx))
	}
}

// Admit returns the context of what writes to the state that is there now, when nobody replaces it, and the number of times that
// it was replaced before. What must not wait gets the error refused, if that is not nil.
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
