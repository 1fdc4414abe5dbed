// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func defaultNode(node *corev1.Node) {
	// The two ways to write the addresses for Pods say the same; the old one wins.
	spec := &node.Spec
	switch {
	case spec.PodCIDR == "" && len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	}
	podspec.RoundUp(node.Status.Capacity)
	podspec.RoundUp(node.Status.Allocatable)
	if node.Status.Allocatable == nil && node.Status.Capacity != nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
}

// prepareNode drops what once configured kubelets.
func prepareNode(ctx context.Context, node, old *corev1.Node) {
	node.Spec.ConfigSource = nil //lint:ignore SA1019 that is why it is dropped
	prepareNodeStatus(ctx, node, old)
}

func prepareNodeStatus(_ context.Context, node, _ *corev1.Node) { node.Status.Config = nil }

func nodeFields(node *corev1.Node, set fields.Set) {
	set["spec.unschedulable"] = strconv.FormatBool(node.Spec.Unschedulable)
}

func nodeCells(node *corev1.Node) []any {
	status := "Unknown"
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			status = "Ready"
			if condition.Status != corev1.ConditionTrue {
				status = "NotReady"
			}
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	info := &node.Status.NodeInfo
	kernel := kind.Or(info.KernelVersion, "<unknown>")
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		status, kind.OrNone(nodeRoles(node)), kind.AgeOf(node), info.KubeletVersion,
		nodeAddress(node, corev1.NodeInternalIP), nodeAddress(node, corev1.NodeExternalIP),
		kind.Or(info.OSImage, "<unknown>"), kernel, kind.Or(info.ContainerRuntimeVersion, "<unknown>"),
	}
}

// nodeRoles reads the roles from the labels.
func nodeRoles(node *corev1.Node) string {
	var roles []string
	for _, label := range slices.Sorted(maps.Keys(node.Labels)) {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if label == "kubernetes.io/role" && node.Labels[label] != "" {
			roles = append(roles, node.Labels[label])
		}
	}
	slices.Sort(roles)
	return strings.Join(slices.Compact(roles), ",")
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, address := range node.Status.Addresses {
		if address.Type == kind {
			return address.Address
		}
	}
	return "<none>"
}

// validateNode reports the taints of a node at its metadata, as a kube-apiserver does.
func validateNode(node, old *corev1.Node) field.ErrorList {
	var f kind.Findings
	checkNodeAnnotations(&f, node.Annotations)
	checkTaints(&f, node.Spec.Taints, field.NewPath("metadata", "taints"))
	checkNodeResources(&f, node)
	ranges := kind.SpecPath("podCIDRs")
	if old == nil || len(old.Spec.PodCIDRs) == 0 {
		for i, cidr := range node.Spec.PodCIDRs {
			f.Add(validation.IsValidCIDRForLegacyField(ranges.Index(i), cidr, true, nil))
		}
		f.Invalid(len(node.Spec.PodCIDRs) > 2 || len(node.Spec.PodCIDRs) == 2 && !dualStack(node.Spec.PodCIDRs), ranges, node.Spec.PodCIDRs,
			"may specify no more than one CIDR for each IP family")
	}
	if old == nil {
		return f.List
	}
	f.Forbid(len(old.Spec.PodCIDRs) > 0 && !slices.Equal(old.Spec.PodCIDRs, node.Spec.PodCIDRs), ranges,
		"node updates may not change podCIDR except from \"\" to valid")
	f.Forbid(old.Spec.ProviderID != "" && old.Spec.ProviderID != node.Spec.ProviderID, kind.SpecPath("providerID"),
		"node updates may not change providerID except from \"\" to valid")
	f.Forbid(old.Spec.DoNotUseExternalID != node.Spec.DoNotUseExternalID, kind.SpecPath("externalID"), "may not be updated")
	return f.List
}

func validateNodeStatus(node, _ *corev1.Node) field.ErrorList {
	var f kind.Findings
	checkNodeAnnotations(&f, node.Annotations)
	checkNodeResources(&f, node)
	for i, address := range node.Status.Addresses {
		if slices.Contains(node.Status.Addresses[:i], address) {
			f.List = append(f.List, field.Duplicate(field.NewPath("status", "addresses").Index(i), address))
		}
	}
	return f.List
}

func checkNodeResources(f *kind.Findings, node *corev1.Node) {
	for name, value := range node.Status.Capacity {
		podspec.CheckResourceValue(f, name, value, field.NewPath("status", "capacity", string(name)))
	}
	for name, value := range node.Status.Allocatable {
		podspec.CheckResourceValue(f, name, value, field.NewPath("status", "allocatable", string(name)))
	}
}

func checkTaints(f *kind.Findings, list []corev1.Taint, at *field.Path) {
	seen := sets.New[string]()
	for i, taint := range list {
		here := at.Index(i)
		f.Add(metavalidation.ValidateLabelName(taint.Key, here.Child("key")))
		f.Messages(validation.IsValidLabelValue(taint.Value), taint.Value, here.Child("value"))
		kind.Choice(f, taint.Effect, here.Child("effect"), corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		f.Unique(string(taint.Effect)+"/"+taint.Key, seen, here)
	}
}

// dualStack tells whether two ranges are of different families.
func dualStack(ranges []string) bool {
	return strings.Contains(ranges[0], ":") != strings.Contains(ranges[1], ":")
}

func warnNode(w *kind.Warnings, node, _ *corev1.Node) {
	w.SayIf(node.Spec.DoNotUseExternalID != "", "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	w.CIDRs(node.Spec.PodCIDRs, kind.SpecPath("podCIDRs"))
}
