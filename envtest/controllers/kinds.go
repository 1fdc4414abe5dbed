// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
)

const (
	// byRelation is the name of the index of objects by what they have to do with others: see relations.
	byRelation = "relations"
	// waits is in the index for objects that wait for their dependents to go before them.
	waits = "waits"
	// discoveryPeriod is how often discovery is asked, as by kube-controller-manager. CRDs and APIServices tell of changes before.
	discoveryPeriod = 30 * time.Second
)

var (
	crdKind        = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	apiServiceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
)

// kinds follows the metadata of all kinds that can be deleted, listed and watched, except events, and tells the collector of
// what it should look at. It is safe for concurrent use.
type kinds struct {
	cache     cache.Cache
	discovery *discovery.DiscoveryClient
	queue     workqueue.TypedRateLimitingInterface[identity] // of the controller, set before anything is in it

	newest atomic.Int64 // resource version that was seen
	heard  atomic.Int64 // when a CRD has changed, in Unix nanoseconds
	crds   *lru.Cache   // the names of CRDs that are gone, by the GroupKind that they defined

	mu       sync.Mutex // guards what follows
	followed map[schema.GroupKind]*followedKind
}

// followedKind is a kind that is followed. A value does not change.
type followedKind struct {
	schema.GroupVersionKind
	namespaced bool
	crd        string       // its name; "" if there is none
	told       *atomic.Bool // the collector is told of its objects; shared by the values of a kind in one version
}

func newKinds(m ctrl.Manager) (*kinds, error) {
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make the client of discovery: %w", err)
	}
	return &kinds{cache: m.GetCache(), discovery: asks, crds: lru.New(remembered), followed: map[schema.GroupKind]*followedKind{}}, nil
}

// begin is the source of the controller: what there is to do follows from the kinds that are served.
func (k *kinds) begin(_ context.Context, queue workqueue.TypedRateLimitingInterface[identity]) error {
	k.queue = queue
	queue.Add(identity{task: discover})
	return nil
}

// discover follows the kinds that discovery shows, and ends those of groups that have answered without them. It is due again after as
// much time as has passed since a CRD has changed, because discovery may be behind, and after discoveryPeriod at most.
func (k *kinds) discover(ctx context.Context) reconcile.Result {
	lists, err := k.discovery.ServerPreferredResourcesWithContext(ctx)
	shown := map[schema.GroupKind]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // nothing can be asked of it
		}
		for _, res := range list.APIResources {
			if isCollected(gv, res) {
				shown[gv.WithKind(res.Kind).GroupKind()] = true
				if err := k.follow(ctx, gv, res); err != nil && ctx.Err() == nil {
					klog.FromContext(ctx).Error(err, "A kind is not followed", "kind", gv.WithKind(res.Kind).String())
				}
			}
		}
	}
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	for _, kind := range k.all() {
		if _, away := failed[kind.GroupVersion()]; !shown[kind.GroupKind()] && !away && (err == nil || partly) {
			if err := k.end(ctx, kind); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "A kind that is not served any more is still followed", "kind", kind.String())
			}
		}
	}
	next := min(max(time.Since(time.Unix(0, k.heard.Load())), firstRetry), discoveryPeriod)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(1).Info("Discovery does not show all groups: it is asked again", "reason", err.Error(), "after", next)
	}
	return reconcile.Result{RequeueAfter: next}
}

func isCollected(gv schema.GroupVersion, res metav1.APIResource) bool {
	if res.Name == "events" && (gv.Group == "" || gv.Group == eventsv1.GroupName) {
		return false
	}
	return slices.Contains(res.Verbs, "delete") && slices.Contains(res.Verbs, "list") && slices.Contains(res.Verbs, "watch")
}

// follow follows the kind of a resource in the version that discovery prefers. After an error, the kind is not followed, and discovery
// shows it again.
func (k *kinds) follow(ctx context.Context, gv schema.GroupVersion, res metav1.APIResource) (err error) {
	found := &followedKind{GroupVersionKind: gv.WithKind(res.Kind), namespaced: res.Namespaced, told: new(atomic.Bool)}
	if name := res.Name + "." + gv.Group; k.cached(ctx, crdKind.GroupKind(), types.NamespacedName{Name: name}) != nil {
		found.crd = name
	}
	known := k.claim(found)
	if known != nil && known.GroupVersionKind == found.GroupVersionKind {
		return nil
	}
	defer func() {
		if err != nil {
			k.forget(found)
		}
	}()
	if known != nil {
		if err := k.cache.RemoveInformer(ctx, metadataOf(known.GroupVersionKind)); err != nil {
			return err
		}
		defer k.lookAgain(found.GroupKind())
	}
	obj := metadataOf(found.GroupVersionKind)
	if err := k.cache.IndexField(ctx, obj, byRelation, relations); err != nil {
		return err
	}
	informer, err := k.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(k.handler(found.GroupVersionKind))
	}
	found.told.Store(err == nil)
	return err
}

// end ends to follow a kind. Nobody tells of what its informer had not told yet.
func (k *kinds) end(ctx context.Context, kind *followedKind) error {
	k.forget(kind)
	defer k.lookAgain(kind.GroupKind())
	return k.cache.RemoveInformer(ctx, metadataOf(kind.GroupVersionKind))
}

// claim notes that a kind is followed, and returns how it was before, nil if it was not.
func (k *kinds) claim(found *followedKind) (known *followedKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known = k.followed[found.GroupKind()]; known != nil {
		found.crd = cmp.Or(found.crd, known.crd)
		if known.GroupVersionKind == found.GroupVersionKind {
			found.told = known.told
		}
	}
	k.followed[found.GroupKind()] = found
	return known
}

// forget undoes a claim. The name of the CRD is remembered.
func (k *kinds) forget(found *followedKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.followed, found.GroupKind())
	if found.crd != "" {
		k.crds.Add(found.GroupKind(), found.crd)
	}
}

// relations is the index function of byRelation: the UIDs and the kinds of the owners of an object, and whether it waits.
func relations(obj client.Object) []string {
	var all []string
	for _, ref := range obj.GetOwnerReferences() {
		all = append(all, string(ref.UID), ofKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()))
	}
	if isGoing(obj) && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		all = append(all, waits)
	}
	return all
}

// ofKind is in the index for objects with an owner of a kind. No UID that a server gives looks like it.
func ofKind(kind schema.GroupKind) string { return "kind:" + kind.String() }

// of returns a kind that is followed, or nil.
func (k *kinds) of(kind schema.GroupKind) *followedKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.followed[kind]
}

// crdOf returns the name of the CRD that defines a kind, or has defined it, or "".
func (k *kinds) crdOf(kind schema.GroupKind) string {
	if found := k.of(kind); found != nil {
		return found.crd
	}
	if crd, ok := k.crds.Get(kind); ok {
		return crd.(string)
	}
	return ""
}

// all returns the kinds that are followed.
func (k *kinds) all() []*followedKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*followedKind, 0, len(k.followed))
	for _, found := range k.followed {
		all = append(all, found)
	}
	return all
}
