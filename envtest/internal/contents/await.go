// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// awaitPatience bounds the wait for the server to know its new state, which takes milliseconds.
const awaitPatience = 20 * time.Second

// await returns when all of the server acts on what was written.
func (s *Contents) await(ctx context.Context, p *plan, writes []etcd.Write) error {
	if len(writes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, awaitPatience, fmt.Errorf("it took longer than %s", awaitPatience))
	defer cancel()
	all := changes{}
	for _, w := range writes {
		at := s.gate.builtin.locate(w.Key)
		all[at.resource] = append(all[at.resource], serving.Change{Name: at.name, Revision: w.Revision, Gone: w.Value == nil})
		if !at.custom {
			s.parts.Kinds.Overwritten(at.resource, at.name)
		}
	}
	if err := s.awaitStores(ctx, p, all); err != nil {
		return err
	}
	if err := s.awaitInformers(ctx, all); err != nil {
		return err
	}
	if err := s.awaitAPIServices(ctx, all); err != nil {
		return err
	}
	if err := s.awaitCRDs(ctx, p.crds); err != nil {
		return err
	}
	if err := s.renewPolicies(ctx, all); err != nil {
		return err
	}
	return s.gate.awaitCaches(ctx, all)
}

// awaitStores waits for the watch caches, except the ones that are replaced because of their CRDs.
func (s *Contents) awaitStores(ctx context.Context, p *plan, all changes) error {
	replaced := map[schema.GroupResource]bool{}
	for _, c := range p.crds {
		if c.keepsStore() {
			continue
		}
		replaced[schema.GroupResource{Group: c.before.Spec.Group, Resource: c.before.Spec.Names.Plural}] = true
	}
	custom := slices.DeleteFunc(s.parts.Custom.Newest(), func(l stores.LiveStore) bool { return replaced[l.Resource] })
	for _, store := range append(custom, s.gate.builtin.all()...) {
		if revision := all.last(store.Resource); revision > 0 {
			if err := store.Await(ctx, revision); err != nil {
				return fmt.Errorf("wait for the watch cache of %s: %w", store.Resource, err)
			}
		}
	}
	return nil
}

// awaitInformers waits for the informers of the server itself, and for their handlers.
func (s *Contents) awaitInformers(ctx context.Context, all changes) error {
	for resource, informer := range s.parts.Informers() {
		if err := informer.Await(ctx, all[resource]); err != nil {
			return fmt.Errorf("wait for the server's informer of %s: %w", resource, err)
		}
	}
	return nil
}

// awaitCRDs waits until what CRDs serve is served, and nothing else.
func (s *Contents) awaitCRDs(ctx context.Context, crds []crdChange) error {
	if len(crds) == 0 {
		return nil
	}
	defer s.parts.Mapper.Reset()
	var served, gone []schema.GroupVersionResource
	for _, change := range crds {
		before, after := change.before, change.after
		now := map[schema.GroupVersionResource]bool{}
		if apihelpers.IsCRDConditionTrue(after, apiextensionsv1.Established) {
			for _, r := range custom.ServedBy(after) {
				now[r], served = true, append(served, r)
			}
		}
		for _, r := range custom.ServedBy(before) {
			if !now[r] {
				gone = append(gone, r)
			}
		}
	}
	if err := errors.Join(s.parts.Catalog.WaitServed(ctx, served), s.parts.Catalog.WaitGone(ctx, gone)); err != nil {
		return err
	}
	return s.awaitSpecs(ctx, crds)
}

// awaitSpecs waits until CRDs whose spec changed are served by the new one.
func (s *Contents) awaitSpecs(ctx context.Context, crds []crdChange) error {
	for _, change := range crds {
		before, after := change.before, change.after
		if !apihelpers.IsCRDConditionTrue(after, apiextensionsv1.Established) {
			continue
		}
		if before.UID != after.UID || apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
			continue // a store belongs to a UID
		}
		if err := s.parts.Installer.AwaitChanged(ctx, after, change.stores); err != nil {
			return err
		}
	}
	return nil
}

// policyResources are the resources that make policies.
var policyResources = []string{
	"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
}

// renewPolicies lets the policies begin anew if they changed: they would poll once a second.
func (s *Contents) renewPolicies(ctx context.Context, all changes) error {
	for _, name := range policyResources {
		if all.last(schema.GroupResource{Group: admissionregistrationv1.GroupName, Resource: name}) == 0 {
			continue
		}
		for _, policies := range s.parts.Policies {
			if err := policies.Renew(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// awaitAPIServices waits for the routes to other servers.
func (s *Contents) awaitAPIServices(ctx context.Context, all changes) error {
	informer := s.parts.APIServices.Informer()
	if informer == nil {
		return nil
	}
	for _, c := range all[apiServiceResource] {
		err := serving.Poll(ctx, func() (bool, error) {
			known, err := c.Knows(informer.GetStore())
			if err != nil || !known {
				return false, err
			}
			return s.parts.APIServices.Routed(c.Name.Name, informer), nil
		})
		if err != nil {
			return fmt.Errorf("wait for the route of APIService %s: %w", c.Name.Name, err)
		}
	}
	return nil
}
