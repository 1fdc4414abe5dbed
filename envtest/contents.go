// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"encoding/json"
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
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

// The beginnings of keys that say more than that an object is there.
var (
	namespacePrefix  = keyPrefix(corev1.Resource("namespaces"))
	crdPrefix        = keyPrefix(crdResource)
	apiServicePrefix = keyPrefix(apiServiceResource)
)

var apiServiceResource = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// keyPrefix is what the keys of a resource begin with.
func keyPrefix(resource schema.GroupResource) string {
	return registryPrefix + "/" + resourcePrefix(resource) + "/"
}

// contents are all that a server has stored, and what it needs to replace it as a whole.
type contents struct {
	etcd      *etcd.Server
	initial   *Snapshot // as Start left it; set before Start returns
	snapshots *origin
	gate      gate
	turn      chan struct{} // has room for the one who works on the whole state
	users     requests      // of turn
	kinds     *builtin.Kinds
	mapper    *restmapper.DeferredDiscoveryRESTMapper // of admission
	policies  []*renewable                            // set before the server serves, like kinds and mapper
	removed   *removedOwners

	mu      sync.Mutex
	builtin map[string]liveStore // guarded by mu; by resource prefix
}

// newContents returns nil if the etcd may be shared with others.
func newContents(backing backing) *contents {
	own, ok := backing.(*etcd.Server)
	if !ok {
		return nil
	}
	return &contents{
		etcd: own, snapshots: new(origin), turn: make(chan struct{}, 1), builtin: map[string]liveStore{}, removed: newRemovedOwners(),
	}
}

// liveStore is the store of a resource, with what a read needs.
type liveStore struct {
	resource schema.GroupResource
	prefix   string
	newFunc  func() runtime.Object
	store    storage.Interface
}

// note decorates the store of a built-in resource so that it is known.
func (s *contents) note(resource schema.GroupResource, next generic.StorageDecorator) generic.StorageDecorator {
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
			s.builtin[resourcePrefix(resource)] = liveStore{resource: resource, prefix: prefix, newFunc: newFunc, store: store}
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
func (s *contents) locate(key string) place {
	parts := strings.Split(strings.TrimPrefix(key, registryPrefix+"/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 1
	store, ok := s.builtin[parts[0]]
	if !ok {
		n = min(2, len(parts))
		store, ok = s.builtin[strings.Join(parts[:n], "/")]
	}
	at := place{resource: store.resource, custom: !ok}
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

// admit returns the context of what writes to the state that is there now, when nobody replaces it, and the number of times that
// it was replaced before. What must not wait gets the error refused, if that is not nil.
func (s *contents) admit(ctx context.Context, refused error) (context.Context, uint64, error) {
	overtaken := refused
	if overtaken == nil {
		overtaken = errOvertaken()
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

// errOvertaken is what a request gets that began before the state was replaced, and would have written after it.
func errOvertaken() error {
	return apierrors.NewTooManyRequests("the state of the environment was reset or restored while the request ran: send it again", 1)
}

// reads are the verbs that are answered while the state is replaced.
var reads = []string{"get", "list", "watch"}

// wrap holds back what writes, and lets it write only to the state that it has seen.
func (s *contents) wrap(next http.Handler) http.Handler {
	if s == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !info.IsResourceRequest || slices.Contains(reads, info.Verb) {
			next.ServeHTTP(w, req)
			return
		}
		began, _, err := s.admit(req.Context(), s.gate.hasty(info))
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
