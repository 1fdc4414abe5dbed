// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var _ = Describe("the default", func() {
	const (
		azureDisk = `"azureDisk":{"diskName":"a","diskURI":"https://example.com/a"}`
		iscsi     = `"iscsi":{"targetPortal":"192.0.2.1","iqn":"iqn.2015-02.example.com:a","lun":0}`
		rbd       = `"rbd":{"monitors":["192.0.2.1"],"image":"a"}`
		scaleIO   = `"scaleIO":{"gateway":"https://example.com","system":"a","secretRef":{"name":"a"},"volumeName":"a"}`
	)
	azureDiskDefaults := `{"diskName":"a","diskURI":"https://example.com/a","cachingMode":"ReadWrite","fsType":"ext4","readOnly":false,"kind":"Shared"}`
	iscsiDefaults := `{"targetPortal":"192.0.2.1","iqn":"iqn.2015-02.example.com:a","lun":0,"iscsiInterface":"default"}`
	rbdDefaults := `{"monitors":["192.0.2.1"],"image":"a","pool":"rbd","user":"admin","keyring":"/etc/ceph/keyring"}`
	scaleIODefaults := `{"gateway":"https://example.com","system":"a","secretRef":{"name":"a"},"volumeName":"a","storageMode":"ThinProvisioned","fsType":"xfs"}`
	pods, volumes := resource("", "v1", "pods"), resource("", "v1", "persistentvolumes")
	quotas, limits := resource("", "v1", "resourcequotas"), resource("", "v1", "limitranges")
	podWith := func(spec string) string {
		return `{"spec":{` + spec + `,"containers":[{"name":"main","image":"example.com/image:1"}]}}`
	}
	volumeOf := func(source string) string {
		return `{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],` + source + `}}`
	}
	type path []any // names and indices
	for _, one := range []struct {
		what    string
		gvr     schema.GroupVersionResource
		kind    string
		content string
		at      path
		want    string
	}{
		{"of azureDisk in a Pod", pods, "Pod", podWith(`"volumes":[{"name":"a",` + azureDisk + `}]`), path{"spec", "volumes", 0, "azureDisk"}, azureDiskDefaults},
		{"of iscsi in a Pod", pods, "Pod", podWith(`"volumes":[{"name":"a",` + iscsi + `}]`), path{"spec", "volumes", 0, "iscsi"}, iscsiDefaults},
		{"of rbd in a Pod", pods, "Pod", podWith(`"volumes":[{"name":"a",` + rbd + `}]`), path{"spec", "volumes", 0, "rbd"}, rbdDefaults},
		{"of scaleIO in a Pod", pods, "Pod", podWith(`"volumes":[{"name":"a",` + scaleIO + `}]`), path{"spec", "volumes", 0, "scaleIO"}, scaleIODefaults},
		{"of azureDisk", volumes, "PersistentVolume", volumeOf(azureDisk), path{"spec", "azureDisk"}, azureDiskDefaults},
		{"of iscsi", volumes, "PersistentVolume", volumeOf(iscsi), path{"spec", "iscsi"}, iscsiDefaults},
		{"of rbd", volumes, "PersistentVolume", volumeOf(rbd), path{"spec", "rbd"}, rbdDefaults},
		{"of scaleIO", volumes, "PersistentVolume", volumeOf(scaleIO), path{"spec", "scaleIO"}, scaleIODefaults},
		{"of hostPath", volumes, "PersistentVolume", volumeOf(`"hostPath":{"path":"/a"}`), path{"spec", "hostPath"}, `{"path":"/a","type":""}`},
		{"of a variable from a file", pods, "Pod", `{"spec":{"volumes":[{"name":"a"}],"containers":[{"name":"main","image":"example.com/image:1",` +
			`"env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"a","path":"f","key":"k"}}}]}]}}`,
			path{"spec", "containers", 0, "env", 0, "valueFrom", "fileKeyRef"}, `{"volumeName":"a","path":"f","key":"k","optional":false}`},
		{"of a claim in a Pod", pods, "Pod", podWith(`"volumes":[{"name":"a","ephemeral":{"volumeClaimTemplate":{"spec":{` +
			`"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1000.0001"}}}}}}]`),
			path{"spec", "volumes", 0, "ephemeral", "volumeClaimTemplate", "spec"},
			`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1000001m"}},"volumeMode":"Filesystem"}`},
		{"precision of a quota", quotas, "ResourceQuota", `{"spec":{"hard":{"requests.cpu":"0.0001"}}}`, path{"spec", "hard"}, `{"requests.cpu":"1m"}`},
		{"precision of a limit", limits, "LimitRange", `{"spec":{"limits":[{"type":"Container","max":{"cpu":"0.0001"}}]}}`, path{"spec", "limits"},
			`[{"type":"Container","max":{"cpu":"1m"},"default":{"cpu":"1m"},"defaultRequest":{"cpu":"1m"}}]`},
	} {
		It(one.what+" is filled in", func(ctx SpecContext) {
			obj := &unstructured.Unstructured{}
			Expect(json.Unmarshal([]byte(one.content), &obj.Object)).To(Succeed())
			obj.SetAPIVersion(one.gvr.GroupVersion().String())
			obj.SetKind(one.kind)
			namespace := newNamespace(ctx)
			obj.SetName(namespace)
			var objects dynamic.ResourceInterface = target.dyn.Resource(one.gvr)
			if one.kind != "PersistentVolume" {
				objects = target.dyn.Resource(one.gvr).Namespace(namespace)
			}
			made, err := objects.Create(ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			Expect(err).NotTo(HaveOccurred())
			var got any = made.Object
			for _, step := range one.at {
				switch step := step.(type) {
				case string:
					Expect(got).To(HaveKey(step))
					got = got.(map[string]any)[step]
				case int:
					got = got.([]any)[step]
				}
			}
			Expect(json.Marshal(got)).To(MatchJSON(one.want))
		}, SpecTimeout(patience))
	}
})

var _ = Describe("the Pod addresses of a Node", func() {
	for _, one := range []struct {
		what string
		spec corev1.NodeSpec
		want []string
	}{
		{"the old name alone", corev1.NodeSpec{PodCIDR: "10.1.0.0/24"}, []string{"10.1.0.0/24"}},
		{"the new name alone", corev1.NodeSpec{PodCIDRs: []string{"10.1.0.0/24", "fd00::/64"}}, []string{"10.1.0.0/24", "fd00::/64"}},
		{"both", corev1.NodeSpec{PodCIDR: "10.1.0.0/24", PodCIDRs: []string{"10.1.0.0/24", "fd00::/64"}}, []string{"10.1.0.0/24", "fd00::/64"}},
		{"both, and they differ", corev1.NodeSpec{PodCIDR: "10.2.0.0/24", PodCIDRs: []string{"10.1.0.0/24", "fd00::/64"}}, []string{"10.2.0.0/24"}},
		{"neither", corev1.NodeSpec{}, nil},
	} {
		It("have two names: "+one.what, func(ctx SpecContext) {
			nodes := target.kube.CoreV1().Nodes()
			name := newNamespace(ctx)
			made, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: one.spec}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) { Expect(nodes.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed()) })
			Expect(made.Spec.PodCIDRs).To(Equal(one.want))
			if one.want != nil {
				Expect(made.Spec.PodCIDR).To(Equal(one.want[0]))
				return
			}
			By("giving it some, as a controller does")
			made, err = nodes.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"podCIDR":"10.3.0.0/24"}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(made.Spec.PodCIDRs).To(Equal([]string{"10.3.0.0/24"}))
		}, SpecTimeout(patience))
	}
})
