// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definition is what a CRD defines.
type definition struct {
	kind     *followedKind
	versions []string // that are served, the preferred one first
}

// definedBy returns what a CRD defines, or nil if it is not established. If there is none, the error says so.
func definedBy(ctx context.Context, live client.Reader, name string) (*definition, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(crdKind)
	if err := live.Get(ctx, client.ObjectKey{Name: name}, obj); err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, crd); err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	versions := served(crd)
	if len(versions) == 0 || !isEstablished(crd) {
		return nil, nil
	}
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: versions[0], Kind: crd.Spec.Names.Kind}
	namespaced := crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	return &definition{&followedKind{GroupVersionKind: kind, namespaced: namespaced, crd: name}, versions}, nil
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// served returns the versions that are served, in the order of discovery.
func served(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var versions []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			versions = append(versions, v.Name)
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return versions
}
