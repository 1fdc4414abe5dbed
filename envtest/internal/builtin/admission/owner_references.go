// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// OwnerReferencesName is kube-apiserver's name of the plugin.
const OwnerReferencesName = "OwnerReferencesPermissionEnforcement"

// ownerReferences is the plugin OwnerReferencesPermissionEnforcement: who changes the owners of an object must be allowed to delete
// it, and who keeps an owner from being deleted before it must be allowed to set the owner's finalizers.
type ownerReferences struct {
	*admission.Handler
	authorizer authorizer.Authorizer
	mapper     meta.RESTMapper
}

var _ admission.ValidationInterface = ownerReferences{}

// OwnerReferences makes the plugin. It stands before the plugin PersistentVolumeClaimResize.
func OwnerReferences(authorizer authorizer.Authorizer, mapper meta.RESTMapper) admission.Interface {
	return ownerReferences{admission.NewHandler(admission.Create, admission.Update), authorizer, mapper}
}

func (ownerReferences) pluginName() string { return OwnerReferencesName }

// Validate implements admission.ValidationInterface. The status of a Pod is written by kubelets, and has no owners.
func (p ownerReferences) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == corev1.Resource("pods") && a.GetSubresource() == "status" {
		return nil
	}
	owners, before := ownersOf(a.GetObject()), ownersOf(a.GetOldObject())
	if apiequality.Semantic.DeepEqual(owners, before) {
		return nil
	}
	resource := a.GetResource()
	if a.GetOperation() != admission.Create { // who creates it could have left it
		if allowed, why := p.allowed(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: "delete", Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: true,
			APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Subresource: a.GetSubresource(),
		}); !allowed {
			return admission.NewForbidden(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %s", why))
		}
	}
	blocking := slices.DeleteFunc(owners, func(owner metav1.OwnerReference) bool {
		return !kind.IsTrue(owner.BlockOwnerDeletion) || slices.ContainsFunc(before, func(was metav1.OwnerReference) bool {
			return was.UID == owner.UID && kind.IsTrue(was.BlockOwnerDeletion)
		})
	})
	if len(blocking) == 0 {
		return nil
	}
	// For a user who may finalize anything, discovery of the owners is not needed.
	if allowed, _ := p.allowed(ctx, finalizing(a, schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, "*")); allowed {
		return nil
	}
	for i := range blocking {
		if err := p.mayBlock(ctx, a, &blocking[i]); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

// mayBlock refuses unless the user may finalize the owner as every resource that it could be.
func (p ownerReferences) mayBlock(ctx context.Context, a admission.Attributes, owner *metav1.OwnerReference) error {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	var mappings []*meta.RESTMapping
	if err == nil {
		mappings, err = p.mapper.RESTMappings(gv.WithKind(owner.Kind).GroupKind(), gv.Version)
	}
	if err != nil {
		return fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w",
			owner.APIVersion, owner.Kind, err)
	}
	for _, mapping := range mappings {
		record := finalizing(a, mapping.Resource, owner.Name)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			record.Namespace = a.GetNamespace() // an owner is in the namespace of what it owns
		}
		if allowed, why := p.allowed(ctx, record); !allowed {
			return fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %s", why)
		}
	}
	return nil
}

// finalizing is the question whether the user of a request may set finalizers.
func finalizing(a admission.Attributes, of schema.GroupVersionResource, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "update", APIGroup: of.Group, APIVersion: of.Version, Resource: of.Resource,
		Subresource: "finalizers", Name: name, ResourceRequest: true,
	}
}

// allowed asks the authorizer. If it does not allow something, why says so in kube-apiserver's form.
func (p ownerReferences) allowed(ctx context.Context, record authorizer.AttributesRecord) (_ bool, why string) {
	decision, reason, err := p.authorizer.Authorize(ctx, record)
	return decision == authorizer.DecisionAllow, fmt.Sprintf("%v, %v", reason, err)
}

// ownersOf returns a copy of the owners of an object, none for nil and for what is no object.
func ownersOf(obj runtime.Object) []metav1.OwnerReference {
	if obj == nil {
		return nil
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return slices.Clone(accessor.GetOwnerReferences())
}
