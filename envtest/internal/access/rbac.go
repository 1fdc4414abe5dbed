// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
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
func newAuthorizer(factory informers.SharedInformerFactory, modes []string) (authorizer.Authorizer, rbac, error) {
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
		return nil, rbac{}, fmt.Errorf("combine the authorizers: %w", err)
	}
	return a, rules, nil
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
	reason := ""
	err := r.visit(a.GetUser(), a.GetNamespace(), func(g granted) bool {
		if !slices.ContainsFunc(g.rules, func(rule rbacv1.PolicyRule) bool { return allows(rule, a) }) {
			return true
		}
		reason = "RBAC: allowed by " + g.String()
		return false
	})
	if reason != "" {
		return authorizer.DecisionAllow, reason, nil
	}
	return authorizer.DecisionNoOpinion, "", err
}

// granted are the rules that a binding gives to a user.
type granted struct {
	binding   string // its kind and name
	role      rbacv1.RoleRef
	subject   rbacv1.Subject
	namespace string // of the binding
	rules     []rbacv1.PolicyRule
}

// String names the binding as kube-apiserver does.
func (g granted) String() string {
	name := g.subject.Name
	if g.subject.Kind == rbacv1.ServiceAccountKind {
		name += "/" + cmp.Or(g.subject.Namespace, g.namespace)
	}
	return fmt.Sprintf("%s of %s %q to %s %q", g.binding, g.role.Kind, g.role.Name, g.subject.Kind, name)
}

// RulesFor implements builtin.RuleResolver.
func (r rbac) RulesFor(who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	err := r.visit(who, namespace, func(g granted) bool {
		rules = append(rules, g.rules...)
		return true
	})
	return rules, err
}

// visit shows the rules of each role that is bound to the user, cluster-wide or in the namespace, until show says that it has
// seen enough. A binding to a role that does not exist gives nothing; another error is reported and does not hide the others.
func (r rbac) visit(who user.Info, namespace string, show func(granted) bool) error {
	var errs []error
	bound := func(subjects []rbacv1.Subject, g granted) bool {
		i := slices.IndexFunc(subjects, func(s rbacv1.Subject) bool { return isSubject(s, who, g.namespace) })
		if i < 0 {
			return true
		}
		var err error
		if g.rules, err = r.RulesOf(g.role, g.namespace); err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
			return true
		}
		g.subject = subjects[i]
		return show(g)
	}
	clusterBindings, err := r.clusterRoleBindings.List(labels.Everything())
	if err != nil {
		errs = append(errs, err)
	}
	for _, b := range clusterBindings {
		if !bound(b.Subjects, granted{binding: fmt.Sprintf("ClusterRoleBinding %q", b.Name), role: b.RoleRef}) {
			return nil
		}
	}
	if namespace == "" {
		return utilerrors.NewAggregate(errs)
	}
	bindings, err := r.roleBindings.RoleBindings(namespace).List(labels.Everything())
	if err != nil {
		errs = append(errs, err)
	}
	for _, b := range bindings {
		if !bound(b.Subjects, granted{binding: fmt.Sprintf("RoleBinding %q", b.Name+"/"+namespace), role: b.RoleRef, namespace: namespace}) {
			return nil
		}
	}
	return utilerrors.NewAggregate(errs)
}

// RulesOf implements builtin.RuleResolver.
func (r rbac) RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
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
