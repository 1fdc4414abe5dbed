// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/informers"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"

	"github.com/tarn-dev/tarn/envtest/internal/flags"
)

// newAuthorizer allows administrators everything, and others what the modes say, one after the other: with RBAC what the
// server's objects grant them.
func newAuthorizer(factory informers.SharedInformerFactory, modes []string) (authorizer.Authorizer, error) {
	kinds := factory.Rbac().V1()
	rules := rbac{
		roles:               kinds.Roles().Lister(),
		roleBindings:        kinds.RoleBindings().Lister(),
		clusterRoles:        kinds.ClusterRoles().Lister(),
		clusterRoleBindings: kinds.ClusterRoleBindings().Lister(),
	}
	chain := []union.NamedAuthorizer{{
		AuthorizerName: "masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
	}}
	for _, mode := range modes {
		switch mode {
		case flags.ModeRBAC:
			chain = append(chain, union.NamedAuthorizer{AuthorizerName: mode, Authorizer: authorizer.AuthorizerFunc(rules.authorize)})
		case flags.ModeAlwaysAllow:
			chain = append(chain, union.NamedAuthorizer{AuthorizerName: mode, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer()})
		case flags.ModeAlwaysDeny:
			chain = append(chain, union.NamedAuthorizer{AuthorizerName: mode, Authorizer: authorizerfactory.NewAlwaysDenyAuthorizer()})
		}
	}
	a, err := union.New(chain...)
	if err != nil {
		return nil, fmt.Errorf("combine the authorizers: %w", err)
	}
	return a, nil
}

// rbac answers from the roles and bindings that the server serves, as its informers know them.
type rbac struct {
	roles               rbaclisters.RoleLister
	roleBindings        rbaclisters.RoleBindingLister
	clusterRoles        rbaclisters.ClusterRoleLister
	clusterRoleBindings rbaclisters.ClusterRoleBindingLister
}

// authorize is an authorizer.AuthorizerFunc. It never denies: without a rule that allows it has no opinion, which the
// server takes as a no.
func (r rbac) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	rules, err := r.rulesFor(a.GetUser(), a.GetNamespace())
	if slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return allows(rule, a) }) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", err
}

// rulesFor collects the rules of each role that is bound to the user, cluster-wide or in the namespace. A binding to a
// role that does not exist is reported and does not hide the others.
func (r rbac) rulesFor(who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	add := func(subjects []rbacv1.Subject, ref rbacv1.RoleRef, bindingNamespace string) {
		if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return isSubject(s, who, bindingNamespace) }) {
			return
		}
		found, err := r.rulesOf(ref, bindingNamespace)
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
		rules = append(rules, found...)
	}
	clusterBindings, err := r.clusterRoleBindings.List(labels.Everything())
	if err != nil {
		errs = append(errs, err)
	}
	for _, b := range clusterBindings {
		add(b.Subjects, b.RoleRef, "")
	}
	if namespace != "" {
		bindings, err := r.roleBindings.RoleBindings(namespace).List(labels.Everything())
		if err != nil {
			errs = append(errs, err)
		}
		for _, b := range bindings {
			add(b.Subjects, b.RoleRef, namespace)
		}
	}
	return rules, utilerrors.NewAggregate(errs)
}

// rulesOf returns the rules of the role that a binding in the namespace refers to.
func (r rbac) rulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "ClusterRole" {
		role, err := r.clusterRoles.Get(ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	role, err := r.roles.Roles(namespace).Get(ref.Name)
	if err != nil {
		return nil, err
	}
	return role.Rules, nil
}

// isSubject reports whether the subject of a binding in the namespace means the user.
func isSubject(s rbacv1.Subject, who user.Info, namespace string) bool {
	switch s.Kind {
	case rbacv1.UserKind:
		return s.Name == who.GetName()
	case rbacv1.GroupKind:
		return slices.Contains(who.GetGroups(), s.Name)
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return namespace != "" && serviceaccount.MatchesUsername(namespace, s.Name, who.GetName())
	default:
		return false
	}
}

// allows reports whether the rule grants what a asks for.
func allows(rule rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !matches(rule.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool { return matchesPath(pattern, a.GetPath()) })
	}
	return matches(rule.APIGroups, a.GetAPIGroup()) && matchesResource(rule.Resources, a) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

// matches reports whether one of the values is the wanted one or stands for all.
func matches(values []string, wanted string) bool {
	return slices.Contains(values, "*") || slices.Contains(values, wanted)
}

// matchesResource knows "pods", "pods/status" and "*/status".
func matchesResource(resources []string, a authorizer.Attributes) bool {
	if a.GetSubresource() == "" {
		return matches(resources, a.GetResource())
	}
	return matches(resources, a.GetResource()+"/"+a.GetSubresource()) || slices.Contains(resources, "*/"+a.GetSubresource())
}

// matchesPath knows paths and prefixes that end in a star.
func matchesPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
