// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func defaultRoleBinding(binding *rbacv1.RoleBinding) {
	kind.Unset(&binding.RoleRef.APIGroup, rbacv1.GroupName)
	kind.Each(binding.Subjects, defaultSubject)
}

func defaultClusterRoleBinding(binding *rbacv1.ClusterRoleBinding) {
	kind.Unset(&binding.RoleRef.APIGroup, rbacv1.GroupName)
	kind.Each(binding.Subjects, defaultSubject)
}

// defaultSubject names the API group of users and groups; service accounts are of the core group, which has no name.
func defaultSubject(subject *rbacv1.Subject) {
	if subject.Kind == rbacv1.UserKind || subject.Kind == rbacv1.GroupKind {
		kind.Unset(&subject.APIGroup, rbacv1.GroupName)
	}
}

func RbacKinds() []*kind.Kind {
	rbac := func(kind string) schema.GroupVersionKind { return rbacv1.SchemeGroupVersion.WithKind(kind) }
	common := kind.Rules{PutCreates: true, Names: kind.PathSegment}
	return []*kind.Kind{
		{
			GVK: rbac("Role"), Resource: "roles", Rules: common,
			Hooks:  kind.Hooks{Validate: kind.TypedCheck(validateRole)},
			Attach: attachGrant(checkRole),
		},
		{
			GVK: rbac("RoleBinding"), Resource: "rolebindings", Rules: common,
			Hooks:  kind.Hooks{Defaults: kind.Typed(defaultRoleBinding), Validate: kind.TypedCheck(validateRoleBinding)},
			Attach: attachGrant(checkBinding),
			Table:  kind.Show("Role,Age,+Users,+Groups,+ServiceAccounts", roleBindingCells),
		},
		{
			GVK: rbac("ClusterRole"), Resource: "clusterroles", Cluster: true, Rules: common,
			Hooks:  kind.Hooks{Validate: kind.TypedCheck(validateClusterRole)},
			Attach: attachGrant(checkRole),
		},
		{
			GVK: rbac("ClusterRoleBinding"), Resource: "clusterrolebindings", Cluster: true, Rules: common,
			Hooks:  kind.Hooks{Defaults: kind.Typed(defaultClusterRoleBinding), Validate: kind.TypedCheck(validateClusterRoleBinding)},
			Attach: attachGrant(checkBinding),
			Table:  kind.Show("Role,Age,+Users,+Groups,+ServiceAccounts", clusterRoleBindingCells),
		},
	}
}

func roleBindingCells(binding *rbacv1.RoleBinding) []any {
	return append([]any{binding.RoleRef.Kind + "/" + binding.RoleRef.Name, kind.AgeOf(binding)}, subjectCells(binding.Subjects)...)
}

func clusterRoleBindingCells(binding *rbacv1.ClusterRoleBinding) []any {
	return append([]any{binding.RoleRef.Kind + "/" + binding.RoleRef.Name, kind.AgeOf(binding)}, subjectCells(binding.Subjects)...)
}

// subjectCells lists users, groups and service accounts.
func subjectCells(subjects []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, subject := range subjects {
		switch subject.Kind {
		case rbacv1.UserKind:
			users = append(users, subject.Name)
		case rbacv1.GroupKind:
			groups = append(groups, subject.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, subject.Namespace+"/"+subject.Name)
		}
	}
	return []any{strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", ")}
}
