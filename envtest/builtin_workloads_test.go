// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// causes are the fields that an error names.
func causes(err error) []string {
	GinkgoHelper()
	status, ok := err.(apierrors.APIStatus)
	Expect(ok).To(BeTrue(), "%v", err)
	var fields []string
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

// database is a StatefulSet as operators of databases make them: its containers mount what a claim template promises.
func database() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "db",
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{
						Name: "init", Image: "example.com/init:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
					Containers: []corev1.Container{{
						Name: "main", Image: "example.com/db:1", VolumeMounts: []corev1.VolumeMount{
							{Name: "data", MountPath: "/data"}, {Name: "config", MountPath: "/etc/db"},
						},
					}},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}},
					}}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("1Gi")},
					},
				},
			}},
		},
	}
}

var _ = Describe("a StatefulSet", func() {
	It("mounts the claims that it has templates for", func(ctx SpecContext) {
		sets := target.kube.AppsV1().StatefulSets(newNamespace(ctx))
		created, err := sets.Create(ctx, database(), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(created.Spec.Template.Spec.Volumes).To(HaveLen(1), "the claim does not become a volume of the template")

		again, err := sets.Update(ctx, database(), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred(), "its own manifest")
		Expect(again.Generation).To(Equal(created.Generation))
		again.Spec.Template.Spec.Containers[0].Image = "example.com/db:2"
		_, err = sets.Update(ctx, again, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("has a claim in the place of a volume of the same name", func(ctx SpecContext) {
		set := database()
		set.Spec.Template.Spec.Volumes = append(set.Spec.Template.Spec.Volumes, corev1.Volume{Name: "data"}, corev1.Volume{Name: "data"})
		_, err := target.kube.AppsV1().StatefulSets(newNamespace(ctx)).Create(ctx, set, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("gives its Pods their host names, whatever the template says", func(ctx SpecContext) {
		set := database()
		set.Spec.Template.Spec.Hostname, set.Spec.Template.Spec.Subdomain = "Not_A_Label", "neither.is.this_"
		_, err := target.kube.AppsV1().StatefulSets(newNamespace(ctx)).Create(ctx, set, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	for _, wrong := range []struct {
		field  string // what the error names
		change func(*appsv1.StatefulSetSpec)
	}{
		{"spec.template.spec.containers[0].volumeMounts[0].name", func(s *appsv1.StatefulSetSpec) { s.VolumeClaimTemplates[0].Name = "other" }},
		{"spec.template.spec.containers[0].volumeMounts[1].name", func(s *appsv1.StatefulSetSpec) { s.Template.Spec.Volumes = nil }},
		{"spec.volumeClaimTemplates[0].spec.accessModes", func(s *appsv1.StatefulSetSpec) { s.VolumeClaimTemplates[0].Spec.AccessModes = nil }},
		{"spec.volumeClaimTemplates[0].spec.resources[storage]", func(s *appsv1.StatefulSetSpec) {
			s.VolumeClaimTemplates[0].Spec.Resources.Requests = nil
		}},
		{"spec.serviceName", func(s *appsv1.StatefulSetSpec) { s.ServiceName = "a.b" }},
		{"spec.minReadySeconds", func(s *appsv1.StatefulSetSpec) { s.MinReadySeconds = -1 }},
		{"spec.ordinals.start", func(s *appsv1.StatefulSetSpec) { s.Ordinals = &appsv1.StatefulSetOrdinals{Start: -1} }},
		{"spec.persistentVolumeClaimRetentionPolicy.whenScaled", func(s *appsv1.StatefulSetSpec) {
			s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Never"}
		}},
		{"spec.updateStrategy.rollingUpdate", func(s *appsv1.StatefulSetSpec) {
			s.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.OnDeleteStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)},
			}
		}},
		{"spec.template.spec.activeDeadlineSeconds", func(s *appsv1.StatefulSetSpec) { s.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) }},
	} {
		It("is refused by "+wrong.field, func(ctx SpecContext) {
			set := database()
			wrong.change(&set.Spec)
			_, err := target.kube.AppsV1().StatefulSets(newNamespace(ctx)).Create(ctx, set, metav1.CreateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(ContainElement(wrong.field))
		}, SpecTimeout(patience))
	}
})

var _ = Describe("a Pod template", func() {
	const (
		always  = `"containers":[{"name":"main","image":"example.com/image:1","volumeMounts":[{"name":"data","mountPath":"/data"}]}]`
		never   = `"restartPolicy":"Never",` + always
		volumes = `"volumes":[{"name":"data","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],` +
			`"resources":{"requests":{"storage":"1Gi"}}}}}}],`
	)
	for _, owner := range []struct {
		gvr           schema.GroupVersionResource
		kind, content string // SPEC stands for the spec of the template
		at            string // where the template is
	}{
		{resource("", "v1", "pods"), "Pod", `{"spec":{SPEC` + always + `}}`, ""},
		{resource("", "v1", "podtemplates"), "PodTemplate", `{"template":{"spec":{SPEC` + always + `}}}`, "template."},
		{resource("", "v1", "replicationcontrollers"), "ReplicationController",
			`{"spec":{"template":{"metadata":{"labels":{"app":"a"}},"spec":{SPEC` + always + `}}}}`, "spec.template."},
		{resource("apps", "v1", "deployments"), "Deployment",
			`{"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{SPEC` + always + `}}}}`, "spec.template."},
		{resource("apps", "v1", "replicasets"), "ReplicaSet",
			`{"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{SPEC` + always + `}}}}`, "spec.template."},
		{resource("apps", "v1", "statefulsets"), "StatefulSet",
			`{"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{SPEC` + always + `}}}}`, "spec.template."},
		{resource("apps", "v1", "daemonsets"), "DaemonSet",
			`{"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{SPEC` + always + `}}}}`, "spec.template."},
		{resource("batch", "v1", "jobs"), "Job", `{"spec":{"template":{"spec":{SPEC` + never + `}}}}`, "spec.template."},
		{resource("batch", "v1", "cronjobs"), "CronJob",
			`{"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{SPEC` + never + `}}}}}}`, "spec.jobTemplate.spec.template."},
	} {
		It("mounts its volumes and no others: "+owner.kind, func(ctx SpecContext) {
			objects := target.dyn.Resource(owner.gvr).Namespace(newNamespace(ctx))
			create := func(spec string) error {
				obj := &unstructured.Unstructured{}
				Expect(json.Unmarshal([]byte(strings.ReplaceAll(owner.content, "SPEC", spec)), &obj.Object)).To(Succeed())
				obj.SetAPIVersion(owner.gvr.GroupVersion().String())
				obj.SetKind(owner.kind)
				obj.SetName("owner")
				_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
				return err
			}
			err := create("")
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(ContainElement(owner.at + "spec.containers[0].volumeMounts[0].name"))
			Expect(create(volumes)).To(Succeed())
		}, SpecTimeout(patience))
	}
})

var _ = Describe("the status of a kind", func() {
	// A controller that writes a status has no say in the metadata of some kinds.
	apart := map[string]bool{
		"Deployment": true, "VolumeAttachment": true, "ValidatingAdmissionPolicy": true, "ServiceCIDR": true, "ResourceClaim": true,
		"FlowSchema": true, "PriorityLevelConfiguration": true, "APIService": true,
	}
	for _, s := range samples() {
		if s.status == "" {
			continue
		}
		verb := "takes labels with it: "
		if apart[s.kind] {
			verb = "leaves the labels alone: "
		}
		It(verb+s.kind, func(ctx SpecContext) {
			objects, obj := s.object(ctx)
			created, err := objects.Create(ctx, obj, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) { s.delete(ctx, objects, obj.GetName()) })
			updated, err := objects.Patch(ctx, obj.GetName(), types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"changed":"yes"}},`+strings.TrimPrefix(s.status, "{")), metav1.PatchOptions{FieldManager: "labeller"}, "status")
			Expect(err).NotTo(HaveOccurred())
			want := created.GetLabels()
			if !apart[s.kind] {
				want["changed"] = "yes"
			}
			Expect(updated.GetLabels()).To(Equal(want))
			for _, owner := range updated.GetManagedFields() {
				if owner.Manager == "labeller" && apart[s.kind] {
					Expect(owner.FieldsV1.GetRawString()).NotTo(ContainSubstring("f:labels"), "nobody owns what nobody wrote")
				}
			}
		}, SpecTimeout(patience))
	}
})
