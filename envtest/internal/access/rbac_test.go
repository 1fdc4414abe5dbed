// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestRuleAllows(t *testing.T) {
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	named := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}}
	status := rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{"apps"}, Resources: []string{"*/status"}}
	all := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	paths := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/api/*"}}
	resource := func(verb, group, resource, subresource, name string) authorizer.Attributes {
		return authorizer.AttributesRecord{
			Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, Name: name, ResourceRequest: true,
		}
	}
	path := func(verb, p string) authorizer.Attributes { return authorizer.AttributesRecord{Verb: verb, Path: p} }
	for name, c := range map[string]struct {
		rule rbacv1.PolicyRule
		a    authorizer.Attributes
		want bool
	}{
		"the resource":                     {pods, resource("get", "", "pods", "", "x"), true},
		"another verb":                     {pods, resource("list", "", "pods", "", ""), false},
		"another group":                    {pods, resource("get", "apps", "pods", "", "x"), false},
		"another resource":                 {pods, resource("get", "", "secrets", "", "x"), false},
		"a subresource that is not named":  {pods, resource("get", "", "pods", "log", "x"), false},
		"the name":                         {named, resource("get", "", "pods", "", "a"), true},
		"another name":                     {named, resource("get", "", "pods", "", "b"), false},
		"no name":                          {named, resource("get", "", "pods", "", ""), false},
		"a subresource of any resource":    {status, resource("update", "apps", "deployments", "status", "x"), true},
		"any resource without subresource": {status, resource("update", "apps", "deployments", "", "x"), false},
		"everything":                       {all, resource("delete", "apps", "deployments", "scale", "x"), true},
		"everything but paths":             {all, path("get", "/healthz"), false},
		"a path":                           {paths, path("get", "/healthz"), true},
		"a path below":                     {paths, path("get", "/healthz/etcd"), false},
		"a path below a star":              {paths, path("get", "/api/v1"), true},
		"a path with another verb":         {paths, path("post", "/api/v1"), false},
	} {
		if got := allows(c.rule, c.a); got != c.want {
			t.Errorf("%s: allowed is %t, want %t", name, got, c.want)
		}
	}
}

func TestIsSubject(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{"readers"}}
	robot := &user.DefaultInfo{Name: "system:serviceaccount:space:robot"}
	for name, c := range map[string]struct {
		subject rbacv1.Subject
		who     user.Info
		want    bool
	}{
		"the user":                           {rbacv1.Subject{Kind: rbacv1.UserKind, Name: "jane"}, jane, true},
		"another user":                       {rbacv1.Subject{Kind: rbacv1.UserKind, Name: "john"}, jane, false},
		"the group":                          {rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "readers"}, jane, true},
		"a user of the group's name":         {rbacv1.Subject{Kind: rbacv1.UserKind, Name: "readers"}, jane, false},
		"the service account":                {rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot", Namespace: "space"}, robot, true},
		"one of the binding's own namespace": {rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot"}, robot, true},
		"one of another namespace":           {rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot", Namespace: "other"}, robot, false},
		"a kind that nobody knows":           {rbacv1.Subject{Kind: "Robot", Name: "jane"}, jane, false},
	} {
		if got := isSubject(c.subject, c.who, "space"); got != c.want {
			t.Errorf("%s: subject is %t, want %t", name, got, c.want)
		}
	}
}
