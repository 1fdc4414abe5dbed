// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func namespaceCells(ns *corev1.Namespace) []any { return []any{string(ns.Status.Phase), ageOf(ns)} }

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
	kernel := or(info.KernelVersion, "<unknown>")
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		status, orNone(nodeRoles(node)), ageOf(node), info.KubeletVersion,
		nodeAddress(node, corev1.NodeInternalIP), nodeAddress(node, corev1.NodeExternalIP),
		or(info.OSImage, "<unknown>"), kernel, or(info.ContainerRuntimeVersion, "<unknown>"),
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

func serviceCells(svc *corev1.Service) []any {
	var ports []string
	for _, port := range svc.Spec.Ports {
		number := strconv.Itoa(int(port.Port))
		if port.NodePort > 0 {
			number += ":" + strconv.Itoa(int(port.NodePort))
		}
		ports = append(ports, number+"/"+string(port.Protocol))
	}
	return []any{
		string(svc.Spec.Type), orNone(svc.Spec.ClusterIP), serviceExternal(svc), orNone(strings.Join(ports, ",")), ageOf(svc),
		labels.FormatLabels(svc.Spec.Selector),
	}
}

// serviceExternal shows where a Service is reached from outside.
func serviceExternal(svc *corev1.Service) string {
	switch svc.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return svc.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var addresses []string
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			addresses = append(addresses, or(ingress.IP, ingress.Hostname))
		}
		return or(strings.Join(append(addresses, svc.Spec.ExternalIPs...), ","), "<pending>")
	default:
		return orNone(strings.Join(svc.Spec.ExternalIPs, ","))
	}
}

func configMapCells(cm *corev1.ConfigMap) []any {
	return []any{int64(len(cm.Data) + len(cm.BinaryData)), ageOf(cm)}
}

func secretCells(secret *corev1.Secret) []any {
	return []any{string(secret.Type), int64(len(secret.Data)), ageOf(secret)}
}

func serviceAccountCells(sa *corev1.ServiceAccount) []any { return []any{ageOf(sa)} }

//lint:ignore SA1019 Endpoints are served as long as a kube-apiserver serves them.
func endpointsCells(endpoints *corev1.Endpoints) []any {
	var addresses []string
	for i := range endpoints.Subsets {
		subset := &endpoints.Subsets[i]
		for _, address := range subset.Addresses {
			if len(subset.Ports) == 0 {
				addresses = append(addresses, address.IP)
			}
		}
		for _, port := range subset.Ports {
			for _, address := range subset.Addresses {
				addresses = append(addresses, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	return []any{orNone(someOf(addresses, func(n int) string { return fmt.Sprintf(" + %d more...", n) })), ageOf(endpoints)}
}

func eventCells(e *corev1.Event) []any {
	first := e.FirstTimestamp.Time
	if first.IsZero() {
		first = e.EventTime.Time
	}
	last, count := e.LastTimestamp.Time, e.Count
	if last.IsZero() {
		last = first
	}
	switch {
	case e.Series != nil:
		last, count = e.Series.LastObservedTime.Time, e.Series.Count
	case count == 0:
		count = 1
	}
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	source := or(e.Source.Component, e.ReportingController)
	if instance := or(e.Source.Host, e.ReportingInstance); instance != "" {
		source += ", " + instance
	}
	return []any{
		since(last), e.Type, e.Reason, object, e.InvolvedObject.FieldPath, source, strings.TrimSpace(e.Message),
		since(first), int64(count), e.Name,
	}
}

func replicationControllerCells(rc *corev1.ReplicationController) []any {
	cells := []any{int64(*rc.Spec.Replicas), int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas), ageOf(rc)}
	return append(append(cells, containersAndImages(&rc.Spec.Template.Spec)...), labels.FormatLabels(rc.Spec.Selector))
}

func persistentVolumeCells(pv *corev1.PersistentVolume) []any {
	claim := ""
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	phase := string(pv.Status.Phase)
	if pv.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		capacity.String(), shortModes(pv.Spec.AccessModes), string(pv.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		classOf(pv.Annotations, &pv.Spec.StorageClassName), value(pv.Spec.VolumeAttributesClassName, "<unset>"), pv.Status.Reason, ageOf(pv),
		value(pv.Spec.VolumeMode, "<unset>"),
	}
}

func persistentVolumeClaimCells(pvc *corev1.PersistentVolumeClaim) []any {
	phase := string(pvc.Status.Phase)
	if pvc.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if pvc.Spec.VolumeName != "" {
		storage := pvc.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = storage.String(), shortModes(pvc.Status.AccessModes)
	}
	return []any{
		phase, pvc.Spec.VolumeName, capacity, modes, classOf(pvc.Annotations, pvc.Spec.StorageClassName),
		value(pvc.Spec.VolumeAttributesClassName, "<unset>"), ageOf(pvc), value(pvc.Spec.VolumeMode, "<unset>"),
	}
}

// shortModes abbreviates access modes, in a fixed order.
func shortModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			short = append(short, m.short)
		}
	}
	return strings.Join(short, ",")
}

func resourceQuotaCells(quota *corev1.ResourceQuota) []any {
	var requests, limits []string
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		used, hard := quota.Status.Used[name], quota.Status.Hard[name]
		entry := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, entry)
		} else {
			requests = append(requests, entry)
		}
	}
	return []any{strings.Join(requests, ", "), strings.Join(limits, ", "), ageOf(quota)}
}

func podTemplateCells(template *corev1.PodTemplate) []any {
	return append(containersAndImages(&template.Template.Spec), labels.FormatLabels(template.Template.Labels))
}
