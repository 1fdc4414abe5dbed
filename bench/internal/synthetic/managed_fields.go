// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managedFields are those of the three writers of every Pod.
func (d draft) managedFields() []metav1.ManagedFieldsEntry {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		at := d.created
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: subresource,
		}
	}
	return []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", "", d.specFields()),
		entry("kube-scheduler", "status", `{"f:status":{"f:conditions":{".":{},`+conditionFields("PodScheduled")+`}}}`),
		entry("kubelet", "status", d.statusFields()),
	}
}

// set is the JSON of a set of fields that are leaves.
func set(names ...string) string {
	b := &strings.Builder{}
	b.WriteString(`{`)
	for i, name := range names {
		if i > 0 {
			b.WriteString(`,`)
		}
		b.WriteString(`"` + name + `":{}`)
	}
	b.WriteString(`}`)
	return b.String()
}

// item is the JSON key of a list's item.
func item(key, value string) string { return `"k:{\"` + key + `\":\"` + value + `\"}":` }

func conditionFields(kind string) string {
	return item("type", kind) + set(".", "f:lastProbeTime", "f:lastTransitionTime", "f:status", "f:type")
}

// specFields are owned by the controller; they mention the ReplicaSet.
func (d draft) specFields() string {
	main := item("name", "main") + `{".":{},"f:args":{},"f:env":{".":{},` +
		item("name", "LOG_LEVEL") + set(".", "f:name", "f:value") + `,` +
		item("name", "POD_NAME") + `{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},` +
		`"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":` +
		set(".", "f:containerPort", "f:name", "f:protocol") + `},"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},` +
		`"f:requests":{".":{},"f:cpu":{}}},"f:securityContext":{},"f:volumeMounts":{".":{},` +
		item("mountPath", "/etc/config") + set(".", "f:mountPath", "f:name") + `}}`
	return `{"f:metadata":{"f:annotations":` + set(".", "f:checksum/config") + `,"f:generateName":{},"f:labels":` +
		set(".", "f:pod-template-hash") + `,"f:ownerReferences":{".":{},` + item("uid", string(d.setUID())) + `{}}},` +
		`"f:spec":{"f:containers":{` + main + `},"f:dnsPolicy":{},"f:restartPolicy":{},"f:serviceAccountName":{}}}`
}

// statusFields are owned by the kubelet; they mention the Pod's address.
func (d draft) statusFields() string {
	return `{"f:status":{"f:conditions":{` + conditionFields("ContainersReady") + `,` + conditionFields("Initialized") + `,` +
		conditionFields("Ready") + `},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},` +
		item("ip", d.podIP()) + set(".", "f:ip") + `},"f:startTime":{}}}`
}
