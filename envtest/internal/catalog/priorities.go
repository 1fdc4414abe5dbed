// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// groupPriorities order the built-in groups in discovery, as in kube-apiserver: they come before those of CRDs, so that a CRD
// cannot take away what "deploy" means.
var groupPriorities = map[string]int{
	"": 18000, "apiregistration.k8s.io": 20000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700,
	"authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200,
	"policy": 17100, "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
	"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
	"discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
}

// versionPriorities are priorities other than the usual one of a stable version.
var versionPriorities = map[schema.GroupVersion]int{
	{Version: "v1"}: 1, {Group: "autoscaling", Version: "v2"}: 30, {Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: 21,
	{Group: "resource.k8s.io", Version: "v1"}: 21,
}

// CustomPriority is the priority of the groups of CRDs.
var CustomPriority = Priority{Group: 1000, Version: 100}

// PriorityOf is the priority of a built-in version.
func PriorityOf(gv schema.GroupVersion) Priority {
	return Priority{
		Group:   cmp.Or(groupPriorities[gv.Group], defaultGroupPriority),
		Version: cmp.Or(versionPriorities[gv], defaultVersionPriority),
	}
}

// PrioritizeBuiltin puts a built-in version into its place in discovery.
func PrioritizeBuiltin(generic *genericapiserver.GenericAPIServer, gv schema.GroupVersion) {
	p := PriorityOf(gv)
	generic.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), p.Group, p.Version)
}
