// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
)

var _ = Describe("a patch", func() {
	It("in JSON tests and replaces", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		_, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		patch := `[{"op":"test","path":"/data/key","value":"1"},{"op":"replace","path":"/data/key","value":"2"}]`
		patched, err := maps.Patch(ctx, "one", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Data).To(HaveKeyWithValue("key", "2"))
		_, err = maps.Patch(ctx, "one", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "the test has to fail now: %v", err)
	}, SpecTimeout(patience))

	It("that merges removes what is null", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		_, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		patched, err := maps.Patch(ctx, "one", types.MergePatchType, []byte(`{"data":{"key":null,"new":"2"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Data).To(Equal(map[string]string{"new": "2"}))
	}, SpecTimeout(patience))

	It("that names a resource version is refused when the object is newer", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		_, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = maps.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"}}`), metav1.PatchOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("that merges strategically knows the keys of lists", func(ctx SpecContext) {
		deployments := target.kube.AppsV1().Deployments(newNamespace(ctx))
		_, err := deployments.Create(ctx, deployment("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		patch := `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example.com/side:1"}]}}}}`
		patched, err := deployments.Patch(ctx, "one", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Spec.Template.Spec.Containers).To(HaveLen(2))
		remove := `{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}`
		patched, err = deployments.Patch(ctx, "one", types.StrategicMergePatchType, []byte(remove), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Spec.Template.Spec.Containers).To(HaveLen(1))
	}, SpecTimeout(patience))
})

var _ = Describe("server-side apply", func() {
	options := func(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }

	It("creates, owns fields, and tells managers who is in their way", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		made, err := maps.Apply(ctx, coreapply.ConfigMap("one", ns).WithData(map[string]string{"a": "1", "b": "1"}), options("first"))
		Expect(err).NotTo(HaveOccurred())
		Expect(made.ManagedFields).To(HaveLen(1))
		Expect(made.ManagedFields[0].Operation).To(Equal(metav1.ManagedFieldsOperationApply))

		mine := coreapply.ConfigMap("one", ns).WithData(map[string]string{"a": "2"})
		_, err = maps.Apply(ctx, mine, options("second"))
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`conflict with "first"`)))
		forced, err := maps.Apply(ctx, mine, metav1.ApplyOptions{FieldManager: "second", Force: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(forced.Data).To(Equal(map[string]string{"a": "2", "b": "1"}))

		less, err := maps.Apply(ctx, coreapply.ConfigMap("one", ns), options("first"))
		Expect(err).NotTo(HaveOccurred())
		Expect(less.Data).To(Equal(map[string]string{"a": "2"}), "what its only owner leaves out is removed")
	}, SpecTimeout(patience))

	It("merges lists by their keys", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		deployments := target.kube.AppsV1().Deployments(ns)
		with := func(container string) *appsapply.DeploymentApplyConfiguration {
			return appsapply.Deployment("one", ns).WithSpec(appsapply.DeploymentSpec().
				WithSelector(metaapply.LabelSelector().WithMatchLabels(map[string]string{"app": "one"})).
				WithTemplate(coreapply.PodTemplateSpec().WithLabels(map[string]string{"app": "one"}).
					WithSpec(coreapply.PodSpec().WithContainers(
						coreapply.Container().WithName(container).WithImage("example.com/" + container + ":1")))))
		}
		_, err := deployments.Apply(ctx, with("main"), options("first"))
		Expect(err).NotTo(HaveOccurred())
		merged, err := deployments.Apply(ctx, with("side"), options("second"))
		Expect(err).NotTo(HaveOccurred())
		Expect(merged.Spec.Template.Spec.Containers).To(HaveLen(2))
	}, SpecTimeout(patience))

	It("applies a status", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		_, err := target.kube.CoreV1().Pods(ns).Create(ctx, pod("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		applied, err := target.kube.CoreV1().Pods(ns).ApplyStatus(ctx,
			coreapply.Pod("one", ns).WithStatus(coreapply.PodStatus().WithMessage("hello")), options("first"))
		Expect(err).NotTo(HaveOccurred())
		Expect(applied.Status.Message).To(Equal("hello"))
	}, SpecTimeout(patience))
})
