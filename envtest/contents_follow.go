// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

// followPatience bounds the wait for the server to know its new state, which takes milliseconds.
const followPatience = 20 * time.Second

// changed is a key that was written.
type changed struct {
	place
	etcd.Write
}

// changes are the changes of a state, by resource.
type changes map[schema.GroupResource][]changed

// last is the revision of the last change of a resource, zero if there is none.
func (c changes) last(resource schema.GroupResource) int64 {
	of := c[resource]
	if len(of) == 0 {
		return 0
	}
	return of[len(of)-1].Revision
}

// follow returns when all of the server acts on what was written.
func (s *server) follow(ctx context.Context, p *plan, writes []etcd.Write) error {
	if len(writes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, followPatience, fmt.Errorf("it took longer than %s", followPatience))
	defer cancel()
	all := changes{}
	for _, w := range writes {
		at := s.contents.locate(w.Key)
		all[at.resource] = append(all[at.resource], changed{at, w})
		if !at.custom {
			s.contents.kinds.Overwritten(at.resource, at.name)
		}
	}
	if err := s.followStores(ctx, p, all); err != nil {
		return err
	}
	if err := s.followInformers(ctx, all); err != nil {
		return err
	}
	if err := s.followAPIServices(ctx, all); err != nil {
		return err
	}
	if err := s.followCRDs(ctx, p.crds); err != nil {
		return err
	}
	if err := s.followPolicies(ctx, all); err != nil {
		return err
	}
	return s.contents.gate.followCaches(ctx, all)
}

// followStores waits for the watch caches, but for those that are replaced because of their CRDs.
func (s *server) followStores(ctx context.Context, p *plan, all changes) error {
	replaced := map[schema.GroupResource]bool{}
	for _, c := range p.crds {
		if c.keepsStore() {
			continue
		}
		replaced[schema.GroupResource{Group: c.before.Spec.Group, Resource: c.before.Spec.Names.Plural}] = true
	}
	stores := slices.DeleteFunc(s.custom.newest(), func(l liveStore) bool { return replaced[l.resource] })
	s.contents.mu.Lock()
	for _, store := range s.contents.builtin {
		stores = append(stores, store)
	}
	s.contents.mu.Unlock()
	for _, store := range stores {
		if revision := all.last(store.resource); revision > 0 {
			if err := store.await(ctx, revision); err != nil {
				return fmt.Errorf("wait for the watch cache of %s: %w", store.resource, err)
			}
		}
	}
	return nil
}

// keepsStore reports whether the CRD server goes on with the store of a definition, of which then only the metadata or the
// rest of the status were changed.
func (c crdChange) keepsStore() bool {
	return c.before.UID == c.after.UID && apiequality.Semantic.DeepEqual(c.before.Spec, c.after.Spec) &&
		apiequality.Semantic.DeepEqual(c.before.Status.AcceptedNames, c.after.Status.AcceptedNames)
}

// await returns when reads of the store see the revision. A watch cache that begins anew will, and a store that is closed is not
// read any more.
func (l liveStore) await(ctx context.Context, revision int64) error {
	options := storage.GetOptions{IgnoreNotFound: true, ResourceVersion: strconv.FormatInt(revision, 10)}
	return poll(ctx, func() (bool, error) {
		err := l.store.Get(ctx, l.prefix+"/"+nobody, options, l.newFunc())
		switch {
		case apierrors.IsTooManyRequests(err):
			return true, nil
		case storage.IsTooLargeResourceVersion(err):
			return false, nil
		}
		return true, err
	})
}

// poll asks again and again until there is an answer. For what tells nobody when it changes.
func poll(ctx context.Context, done func() (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, hookInterval, true, func(context.Context) (bool, error) { return done() })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// followInformers waits for what the server itself watches, and for those who are told of it.
func (s *server) followInformers(ctx context.Context, all changes) error {
	informers := s.loopback.informers.all()
	informers[crdResource] = &followed{SharedIndexInformer: s.crds.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer()}
	for resource, informer := range informers {
		if err := informer.await(ctx, all[resource]); err != nil {
			return fmt.Errorf("wait for the server's informer of %s: %w", resource, err)
		}
	}
	return nil
}

// knows reports whether an informer's store has a change.
func (c changed) knows(store cache.Store) (bool, error) {
	key := c.name.Name
	if c.name.Namespace != "" {
		key = c.name.Namespace + "/" + key
	}
	obj, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return c.Value == nil, err
	}
	return versionOf(obj) >= c.Revision, nil
}

// versionOf is the resource version of an object of an informer, zero if it has none.
func versionOf(obj any) int64 {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// followCRDs waits until what CRDs serve is served, and nothing else.
func (s *server) followCRDs(ctx context.Context, crds []crdChange) error {
	if len(crds) == 0 {
		return nil
	}
	defer s.contents.mapper.Reset()
	var served, gone []schema.GroupVersionResource
	for _, change := range crds {
		before, after := change.before, change.after
		now := map[schema.GroupVersionResource]bool{}
		if apihelpers.IsCRDConditionTrue(after, apiextensionsv1.Established) {
			for _, r := range (installation{crd: after}).served() {
				now[r], served = true, append(served, r)
			}
		}
		for _, r := range (installation{crd: before}).served() {
			if !now[r] {
				gone = append(gone, r)
			}
		}
	}
	if err := errors.Join(s.catalog.waitServed(ctx, served), s.catalog.waitGone(ctx, gone)); err != nil {
		return err
	}
	return s.followSpecs(ctx, crds)
}

// followSpecs waits until CRDs whose spec changed are served by the new one.
func (s *server) followSpecs(ctx context.Context, crds []crdChange) error {
	for _, change := range crds {
		before, after := change.before, change.after
		if !apihelpers.IsCRDConditionTrue(after, apiextensionsv1.Established) {
			continue
		}
		if before.UID != after.UID || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
			continue // a store belongs to a UID
		}
		if err := s.waitAnswered(ctx, installation{crd: after, changed: true, stores: change.stores}); err != nil {
			return err
		}
	}
	return nil
}

// policyResources are those that make policies.
var policyResources = []string{
	"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
}

// followPolicies lets the policies begin anew if they changed: they would look for changes once a second.
func (s *server) followPolicies(ctx context.Context, all changes) error {
	for _, name := range policyResources {
		if all.last(schema.GroupResource{Group: admissionregistrationv1.GroupName, Resource: name}) == 0 {
			continue
		}
		for _, policies := range s.contents.policies {
			if err := policies.renew(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// followAPIServices waits for the routes to other servers.
func (s *server) followAPIServices(ctx context.Context, all changes) error {
	informer := s.others.informer()
	if informer == nil {
		return nil
	}
	for _, c := range all[apiServiceResource] {
		err := poll(ctx, func() (bool, error) {
			known, err := c.knows(informer.GetStore())
			if err != nil || !known {
				return false, err
			}
			return s.others.routed(c.name.Name, informer), nil
		})
		if err != nil {
			return fmt.Errorf("wait for the route of APIService %s: %w", c.name.Name, err)
		}
	}
	return nil
}

// informer is that of APIServices, nil if nobody has asked for one yet.
func (a *aggregation) informer() cache.SharedIndexInformer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != aggregationBegun {
		return nil
	}
	return a.parts.informers.Apiregistration().V1().APIServices().Informer()
}

// routed reports whether requests go where the informer's APIService says: to another server, or not.
func (a *aggregation) routed(name string, informer cache.SharedIndexInformer) bool {
	wanted := false
	if obj, exists, err := informer.GetStore().GetByKey(name); err == nil && exists {
		service, ok := obj.(*apiregistrationv1.APIService)
		wanted = ok && service.Spec.Service != nil
	}
	to := a.routes.Load()
	return wanted == (to != nil && to.versions[helper.APIServiceNameToGroupVersion(name)] != nil)
}
