// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
)

// ownVersions are the group versions that the server itself serves: built-in ones, and those of CRDs.
type ownVersions struct {
	crds    crdinformers.CustomResourceDefinitionInformer // of the CRD server
	builtin []schema.GroupVersion
}

func newOwnVersions(crds crdinformers.CustomResourceDefinitionInformer, groups []*genericapiserver.APIGroupInfo) *ownVersions {
	o := &ownVersions{crds: crds, builtin: []schema.GroupVersion{apiextensionsv1.SchemeGroupVersion}}
	for _, group := range groups {
		for _, gv := range group.PrioritizedVersions {
			if gv.Group != apiregistrationv1.GroupName {
				o.builtin = append(o.builtin, gv)
			}
		}
	}
	return o
}

// register tells the controller what the server serves: built-in groups, and those of CRDs as they come and go.
func (o *ownVersions) register(auto autoregister.AutoAPIServiceRegistration) (cache.ResourceEventHandlerRegistration, error) {
	for _, gv := range o.builtin {
		auto.AddAPIServiceToSyncOnStart(apiServiceOf(gv, catalog.PriorityOf(gv)))
	}
	sync := func(obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return
		}
		served := o.custom()
		for _, version := range crd.Spec.Versions {
			gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
			if service := apiServiceOf(gv, catalog.CustomPriority); served[gv] {
				auto.AddAPIServiceToSync(service)
			} else {
				auto.RemoveAPIServiceToSync(service.Name)
			}
		}
	}
	registration, err := o.crds.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: sync, DeleteFunc: sync,
		UpdateFunc: func(old, crd any) {
			sync(old) // may have had further versions
			sync(crd)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("follow the CRDs for their APIServices: %w", err)
	}
	return registration, nil
}

// served has the group versions of now.
func (o *ownVersions) served() map[schema.GroupVersion]bool {
	served := o.custom()
	for _, gv := range o.builtin {
		served[gv] = true
	}
	return served
}

// custom has the group versions of the CRDs of now.
func (o *ownVersions) custom() map[schema.GroupVersion]bool {
	crds, _ := o.crds.Lister().List(labels.Everything()) // a lister in memory has no errors
	served := map[schema.GroupVersion]bool{}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			if version.Served {
				served[schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}] = true
			}
		}
	}
	return served
}
