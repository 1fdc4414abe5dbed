// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

// rolesFile is what a kube-apiserver v1.36.3 makes for users when it starts. The roles of the parts of a cluster that do not run
// here (controllers, scheduler, nodes, DNS) are left out. The specs compare it with a real server.
//
//go:embed roles.json
var rolesFile []byte

// roleSet are roles and who has them.
type roleSet struct {
	ClusterRoles        []rbacv1.ClusterRole
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	Roles               []rbacv1.Role
	RoleBindings        []rbacv1.RoleBinding
}

// defaultRoles are the roles of every server. They are shared: callers change nothing.
var defaultRoles = sync.OnceValue(func() *roleSet {
	set := &roleSet{}
	if err := json.Unmarshal(rolesFile, set); err != nil {
		panic(fmt.Sprintf("envtest: roles.json, which is a part of the program, is no JSON: %v", err))
	}
	return set
})
