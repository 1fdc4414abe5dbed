// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// Nobody grants rights that they do not have. The author of a role must have all its rights, or be allowed to escalate it. The
// author of a binding must have all rights of the role, or be allowed to bind it. Administrators may do both. The rules are
// those of kube-apiserver's pkg/registry/rbac.

// grantREST serves roles or bindings.
type grantREST struct {
	kind.ResourceREST
	access *kind.Access
	// Check refuses what the user may not grant. old is nil on create.
	check func(ctx context.Context, access *kind.Access, who user.Info, obj, old runtime.Object) error
}

// attachGrant guards a resource by a check.
func attachGrant(check func(context.Context, *kind.Access, user.Info, runtime.Object, runtime.Object) error) func(*kind.Served) (map[string]rest.Storage, error) {
	return func(a *kind.Served) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"": grantREST{kind.ResourceREST{Store: a.Store, Kind: a.Kind}, a.Access, check}}, nil
	}
}

// Create checks what is granted before anything else is.
func (r grantREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if err := r.refuse(ctx, obj, nil); err != nil {
		return nil, err
	}
	return r.ResourceREST.Create(ctx, obj, validate, options)
}

// Update does so with what an update makes of an object.
func (r grantREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	checked := rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
		if onlyLetsGo(obj, old) {
			return obj, nil
		}
		return obj, r.refuse(ctx, obj, old)
	})
	return r.ResourceREST.Update(ctx, name, checked, create, update, force, options)
}

func (r grantREST) refuse(ctx context.Context, obj, old runtime.Object) error {
	who, ok := request.UserFrom(ctx)
	if ok && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) || r.access == nil {
		return nil
	}
	if !ok {
		return apierrors.NewForbidden(r.Kind.GroupResource(), kind.NameOf(obj), errors.New("no user on context"))
	}
	return r.check(ctx, r.access, who, obj, old)
}

// onlyLetsGo reports whether an update changes nothing but owners and finalizers, as a garbage collector does.
func onlyLetsGo(obj, old runtime.Object) bool {
	if old == nil || apiequality.Semantic.DeepEqual(obj, old) {
		return false
	}
	now, was := obj.DeepCopyObject(), old.DeepCopyObject()
	for _, o := range []runtime.Object{now, was} {
		m := o.(metav1.Object)
		m.SetOwnerReferences(nil)
		m.SetFinalizers(nil)
		m.SetManagedFields(nil)
		m.SetSelfLink("")
	}
	return apiequality.Semantic.DeepEqual(now, was)
}

// checkRole is the check of roles and cluster roles.
func checkRole(ctx context.Context, access *kind.Access, who user.Info, obj, old runtime.Object) error {
	var rules []rbacv1.PolicyRule
	resource, aggregates := "roles", false
	switch role := obj.(type) {
	case *rbacv1.Role:
		rules = role.Rules
	case *rbacv1.ClusterRole:
		rules, resource = role.Rules, "clusterroles"
		was, _ := old.(*rbacv1.ClusterRole)
		aggregates = role.AggregationRule != nil || was != nil && was.AggregationRule != nil
	}
	if allows(ctx, access, who, "escalate", resource, request.NamespaceValue(ctx), requestedName(ctx)) {
		return nil
	}
	if err := lacking(ctx, access, who, rules); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource(resource), kind.NameOf(obj), err)
	}
	// An aggregation gathers anything.
	if aggregates && lacking(ctx, access, who, fullAuthority) != nil {
		return apierrors.NewForbidden(rbacv1.Resource(resource), kind.NameOf(obj), errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

var fullAuthority = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// checkBinding is the check of bindings of both kinds.
func checkBinding(ctx context.Context, access *kind.Access, who user.Info, obj, _ runtime.Object) error {
	var ref rbacv1.RoleRef
	resource, namespace := "rolebindings", request.NamespaceValue(ctx)
	switch binding := obj.(type) {
	case *rbacv1.RoleBinding:
		ref = binding.RoleRef
	case *rbacv1.ClusterRoleBinding:
		ref, resource, namespace = binding.RoleRef, "clusterrolebindings", ""
	}
	bound := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	if bound != "" && ref.APIGroup == rbacv1.GroupName && allows(ctx, access, who, "bind", bound, namespace, ref.Name) {
		return nil
	}
	rules, err := access.Rules.RulesOf(ref, namespace)
	if err != nil {
		return err
	}
	if err := lacking(ctx, access, who, rules); err != nil {
		return apierrors.NewForbidden(rbacv1.Resource(resource), kind.NameOf(obj), err)
	}
	return nil
}

// requestedName is the name in the path of a request. A new object has none there.
func requestedName(ctx context.Context) string {
	if info, ok := request.RequestInfoFrom(ctx); ok {
		return info.Name
	}
	return ""
}

// allows asks the authorizer about a verb on roles.
func allows(ctx context.Context, a *kind.Access, who user.Info, verb, resource, namespace, name string) bool {
	decision, _, _ := a.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: verb, Namespace: namespace, APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: resource, Name: name, ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow
}

// lacking says which of the rules the user does not have.
func lacking(ctx context.Context, a *kind.Access, who user.Info, rules []rbacv1.PolicyRule) error {
	own, resolving := a.Rules.RulesFor(who, request.NamespaceValue(ctx))
	var missing []rbacv1.PolicyRule
	for _, rule := range rules {
		for _, part := range parts(rule) {
			if !slices.ContainsFunc(own, func(o rbacv1.PolicyRule) bool { return coversPart(o, part) }) {
				missing = append(missing, part)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	message := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		who.GetName(), who.GetGroups(), strings.Join(describe(missing), "\n"))
	if resolving != nil {
		message += fmt.Sprintf("; resolution errors: [%v]", resolving)
	}
	return errors.New(message)
}

// parts breaks a rule into rules of one verb, and one resource and name or one URL.
func parts(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	names := [][]string{nil}
	if len(rule.ResourceNames) > 0 {
		names = nil
		for _, name := range rule.ResourceNames {
			names = append(names, []string{name})
		}
	}
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					all = append(all, rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: name})
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			all = append(all, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}})
		}
	}
	return all
}

// coversPart reports whether a rule grants what a part grants.
func coversPart(own, part rbacv1.PolicyRule) bool {
	has := func(values []string, wanted string) bool {
		return slices.Contains(values, "*") || slices.Contains(values, wanted)
	}
	if !has(own.Verbs, part.Verbs[0]) {
		return false
	}
	if len(part.NonResourceURLs) > 0 {
		return slices.ContainsFunc(own.NonResourceURLs, func(url string) bool {
			return url == part.NonResourceURLs[0] || strings.HasSuffix(url, "*") && strings.HasPrefix(part.NonResourceURLs[0], strings.TrimRight(url, "*"))
		})
	}
	resource := part.Resources[0]
	_, sub, isSub := strings.Cut(resource, "/")
	if !has(own.APIGroups, part.APIGroups[0]) || !has(own.Resources, resource) && (!isSub || !slices.Contains(own.Resources, "*/"+sub)) {
		return false
	}
	return len(own.ResourceNames) == 0 || len(part.ResourceNames) > 0 && slices.Contains(own.ResourceNames, part.ResourceNames[0])
}

// describe names parts, sorted, with the verbs on one resource together.
func describe(missing []rbacv1.PolicyRule) []string {
	var together []rbacv1.PolicyRule
	for _, part := range missing {
		i := slices.IndexFunc(together, func(r rbacv1.PolicyRule) bool {
			return len(r.ResourceNames)+len(r.NonResourceURLs)+len(part.ResourceNames)+len(part.NonResourceURLs) == 0 &&
				slices.Equal(r.APIGroups, part.APIGroups) && slices.Equal(r.Resources, part.Resources)
		})
		if i < 0 {
			together = append(together, part)
			continue
		}
		together[i].Verbs = append(together[i].Verbs, part.Verbs...)
	}
	var described []string
	for _, rule := range together {
		var fields []string
		for _, f := range []struct {
			name   string
			values []string
		}{
			{"APIGroups", rule.APIGroups}, {"Resources", rule.Resources}, {"NonResourceURLs", rule.NonResourceURLs},
			{"ResourceNames", rule.ResourceNames}, {"Verbs", rule.Verbs},
		} {
			if len(f.values) > 0 {
				fields = append(fields, fmt.Sprintf("%s:%q", f.name, f.values))
			}
		}
		described = append(described, "{"+strings.Join(fields, ", ")+"}")
	}
	slices.Sort(described)
	return slices.Compact(described)
}
