// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// The rules are those of kube-apiserver's pkg/apis/core/validation/validation.go. Its rules for the status of containers are left
// out.

// validatePodStatus checks the addresses of a Pod and of its host, and that its class of service stays.
func validatePodStatus(pod, old *corev1.Pod) field.ErrorList {
	var f kind.Findings
	podspec.CheckKeptAnnotations(&f, pod.Annotations, old.Annotations)
	podspec.CheckPodAnnotations(&f, pod.Annotations, &pod.Spec, kind.AnnotationsPath())
	now, was, at := &pod.Status, &old.Status, field.NewPath("status")
	if now.NominatedNodeName != was.NominatedNodeName && now.NominatedNodeName != "" {
		f.Messages(apivalidation.NameIsDNSSubdomain(now.NominatedNodeName, false), now.NominatedNodeName, at.Child("nominatedNodeName"))
		f.Forbid(old.Spec.NodeName != "", at.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node")
	}
	f.Invalid(now.ObservedGeneration < 0, at.Child("observedGeneration"), now.ObservedGeneration, "must be a non-negative integer")
	f.Add(kind.Frozen(now.QOSClass, was.QOSClass, at.Child("qosClass")))
	podIP := func(ip corev1.PodIP) string { return ip.IP }
	checkAddresses(&f, texts(now.PodIPs, podIP), texts(was.PodIPs, podIP), now.PodIPs, at.Child("podIPs"))
	hostIP := func(ip corev1.HostIP) string { return ip.IP }
	if len(now.HostIPs) > 0 {
		first := now.HostIPs[0].IP
		f.Invalid(now.HostIP != first, at.Child("hostIPs").Index(0).Child("ip"), first, "must be equal to `hostIP`")
	}
	checkAddresses(&f, texts(now.HostIPs, hostIP), texts(was.HostIPs, hostIP), now.HostIPs, at.Child("hostIPs"))
	return f.List
}

// texts returns the text of each item.
func texts[T any](list []T, text func(T) string) []string {
	var all []string
	for _, item := range list {
		all = append(all, text(item))
	}
	return all
}

// checkAddresses checks a list that has at most one address of each family. An address that it had need not be right. value is the
// list as it is reported.
func checkAddresses(f *kind.Findings, now, was []string, value any, at *field.Path) {
	for i, address := range now {
		f.Add(validation.IsValidIPForLegacyField(at.Index(i), address, true, was))
	}
	if len(now) < 2 {
		return
	}
	both, err := netutils.IsDualStackIPStrings(now)
	if err != nil {
		f.List = append(f.List, field.InternalError(at, fmt.Errorf("failed to check for dual stack with error:%v", err)))
	}
	f.Invalid(!both || len(now) > 2, at, value, "may specify no more than one IP for each IP family")
}
