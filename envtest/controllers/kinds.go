// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

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
// what it should look at. It is a runnable of a manager, and safe for concurrent use.
type kinds struct {
	cache     cache.Cache
	live      client.Reader
	discovery *discovery.DiscoveryClient
	watch     func(source.TypedSource[identity]) error // of the controller

	newest atomic.Int64 // resource version that was seen
	queue  atomic.Pointer[workqueue.TypedRateLimitingInterface[identity]]
	news   chan struct{} // has one element if changed is not empty
	crds   *lru.Cache    // the names of CRDs that are gone, by the GroupKind that they defined

	mu       sync.Mutex // guards what follows
	followed map[schema.GroupKind]*followedKind
	changed  map[string]bool // names of CRDs, or "" for APIServices
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
	return &kinds{
		cache: m.GetCache(), live: m.GetAPIReader(), discovery: asks, news: make(chan struct{}, 1), crds: lru.New(remembered),
		followed: map[schema.GroupKind]*followedKind{}, changed: map[string]bool{},
	}, nil
}

// Start implements manager.Runnable.
func (k *kinds) Start(ctx context.Context) error {
	ticker := time.NewTicker(discoveryPeriod)
	defer ticker.Stop()
	k.discover(ctx)
	for {
		select {
		case <-k.news:
			k.learn(ctx)
		case <-ticker.C:
			k.discover(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// tell has what a CRD or an APIService changes learned.
func (k *kinds) tell(crd string) {
	k.mu.Lock()
	k.changed[crd] = true
	k.mu.Unlock()
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// learn follows the kinds of CRDs that have changed, which discovery may not show yet, and ends those of CRDs that are gone.
func (k *kinds) learn(ctx context.Context) {
	k.mu.Lock()
	changed := k.changed
	k.changed = map[string]bool{}
	k.mu.Unlock()
	for crd := range changed {
		if crd == "" {
			k.discover(ctx)
			continue
		}
		found, err := definedBy(ctx, k.live, crd)
		switch {
		case apierrors.IsNotFound(err):
			err = k.endThose(ctx, func(kind *followedKind) bool { return kind.crd == crd })
		case err == nil && found != nil:
			err = k.follow(ctx, found.versions, *found.kind)
		}
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The kind of a CustomResourceDefinition is not known: discovery is asked later", "crd", crd)
		}
	}
}

// discover follows the kinds that discovery shows. Of groups that cannot be asked for now, nothing changes. Kinds without a CRD
// that a complete answer does not show are ended.
func (k *kinds) discover(ctx context.Context) {
	lists, incomplete := k.discovery.ServerPreferredResourcesWithContext(ctx)
	if incomplete != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(1).Info("Discovery does not show all groups: it is asked again", "reason", incomplete.Error(), "after", discoveryPeriod)
	}
	shown := map[schema.GroupKind]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // nothing can be asked of it
		}
		for _, res := range list.APIResources {
			if isCollected(gv, res) {
				shown[gv.WithKind(res.Kind).GroupKind()] = true
				found := followedKind{GroupVersionKind: gv.WithKind(res.Kind), namespaced: res.Namespaced}
				if err := k.follow(ctx, nil, found); err != nil && ctx.Err() == nil {
					klog.FromContext(ctx).Error(err, "A kind is not followed", "kind", found.String())
				}
			}
		}
	}
	if incomplete != nil {
		return
	}
	if err := k.endThose(ctx, func(kind *followedKind) bool { return kind.crd == "" && !shown[kind.GroupKind()] }); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "A kind that is not served any more is still followed")
	}
}

func isCollected(gv schema.GroupVersion, res metav1.APIResource) bool {
	if res.Name == "events" && (gv.Group == "" || gv.Group == eventsv1.GroupName) {
		return false
	}
	return slices.Contains(res.Verbs, "delete") && slices.Contains(res.Verbs, "list") && slices.Contains(res.Verbs, "watch")
}

// follow follows a kind, if it is not followed yet in one of the versions that are served. Without versions, any will do. After an
// error, the kind is not followed, and discovery shows it again.
func (k *kinds) follow(ctx context.Context, versions []string, found followedKind) (err error) {
	known := k.claim(versions, &found)
	if known != nil && known.GroupVersionKind == found.GroupVersionKind {
		return nil
	}
	defer func() {
		if err != nil {
			k.forget(&found)
		}
	}()
	if known != nil {
		if err := k.cache.RemoveInformer(ctx, metadataOf(known.GroupVersionKind)); err != nil {
			return err
		}
		defer k.lookAgain(found.GroupKind())
	}
	return k.begin(ctx, &found)
}

// begin caches the metadata of a kind, and has the collector told of it.
func (k *kinds) begin(ctx context.Context, found *followedKind) error {
	obj := metadataOf(found.GroupVersionKind)
	if err := k.cache.IndexField(ctx, obj, byRelation, relations); err != nil {
		return err
	}
	return k.watch(source.TypedFunc[identity](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[identity]) error {
		k.queue.Store(&queue)
		informer, err := k.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(k.handler(found.GroupVersionKind))
		}
		found.told.Store(err == nil)
		return err
	}))
}

// endThose ends to follow kinds. Nobody tells of what their informers had not told yet.
func (k *kinds) endThose(ctx context.Context, which func(*followedKind) bool) error {
	var failed []error
	for _, kind := range k.all() {
		if which(kind) {
			k.forget(kind)
			failed = append(failed, k.cache.RemoveInformer(ctx, metadataOf(kind.GroupVersionKind)))
			k.lookAgain(kind.GroupKind())
		}
	}
	return errors.Join(failed...)
}

// claim notes that a kind is followed, and returns how it was before, nil if it was not. It gives found the version in which the
// kind is followed already, if that is served.
func (k *kinds) claim(versions []string, found *followedKind) (known *followedKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known = k.followed[found.GroupKind()]
	if known != nil && (versions == nil || slices.Contains(versions, known.Version)) {
		found.GroupVersionKind = known.GroupVersionKind
		found.told = known.told
		if found.crd == "" {
			found.crd = known.crd
		}
	} else {
		found.told = new(atomic.Bool)
	}
	k.followed[found.GroupKind()] = found
	return known
}

// forget undoes a claim. The name of the CRD is remembered.
func (k *kinds) forget(found *followedKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.followed[found.GroupKind()] == found {
		delete(k.followed, found.GroupKind())
	}
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
