// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// createPod creates a Pod with a spec of its own, in a namespace of its own.
func createPod(ctx context.Context, change func(*corev1.Pod)) (typedcorev1.PodInterface, *corev1.Pod) {
	GinkgoHelper()
	pods := target.kube.CoreV1().Pods(newNamespace(ctx))
	p := pod("one")
	change(p)
	made, err := pods.Create(ctx, p, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return pods, made
}

// container changes the first container of a Pod.
func container(change func(*corev1.Container)) func(*corev1.Pod) {
	return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
}

// requirement is a term of a node affinity with one expression for each key.
func requirement(keys ...string) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for _, key := range keys {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists})
	}
	return term
}

// onNodes is an affinity to nodes that fit one of the terms.
func onNodes(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

var _ = Describe("a Pod's own manifest", func() {
	for what, change := range map[string]func(*corev1.Pod){
		"of a plain Pod": func(*corev1.Pod) {},
		"with a priority class": func(p *corev1.Pod) {
			p.Spec.PriorityClassName = "system-cluster-critical"
		},
		"with a toleration": func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
		},
		"with a toleration of everything": func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		},
		"with a service account under its old name": func(p *corev1.Pod) { p.Spec.DeprecatedServiceAccount = "default" },
		"with limits alone": container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("0.0001"), corev1.ResourceMemory: quantity.MustParse("1Gi")}
		}),
		"with host ports": func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
		},
		"with volumes": func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "default"
			p.Spec.Volumes = []corev1.Volume{{Name: "scratch"}, {Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/token"}}
		},
		"with a scheduling gate": func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}} },
		"with a negative grace period": func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-1)
		},
	} {
		It("changes nothing: "+what, func(ctx SpecContext) {
			pods, created := createPod(ctx, change)
			manifest := pod("one")
			change(manifest)
			again, err := pods.Update(ctx, manifest, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(again.Spec).To(Equal(created.Spec))
			Expect(again.Generation).To(Equal(created.Generation))
		}, SpecTimeout(patience))
	}

	It("has a second of grace if it wants less than none", func(ctx SpecContext) {
		_, created := createPod(ctx, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-5) })
		Expect(created.Spec.TerminationGracePeriodSeconds).To(HaveValue(Equal(int64(1))))
	}, SpecTimeout(patience))

	It("is put with a new image", func(ctx SpecContext) {
		pods, created := createPod(ctx, func(*corev1.Pod) {})
		manifest := pod("one")
		manifest.Spec.Containers[0].Image = "example.com/image:2"
		updated, err := pods.Update(ctx, manifest, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		created.Spec.Containers[0].Image = "example.com/image:2"
		Expect(updated.Spec).To(Equal(created.Spec))
	}, SpecTimeout(patience))

	for why, change := range map[string]func(context.Context, typedcorev1.PodInterface, *corev1.Pod) error{
		"it is on a node": func(ctx context.Context, pods typedcorev1.PodInterface, p *corev1.Pod) error {
			return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Name: "node"}}, metav1.CreateOptions{})
		},
		"it has an ephemeral container": func(ctx context.Context, pods typedcorev1.PodInterface, p *corev1.Pod) error {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debugger("debug")}
			_, err := pods.UpdateEphemeralContainers(ctx, p.Name, p, metav1.UpdateOptions{})
			return err
		},
	} {
		It("is no more enough when "+why, func(ctx SpecContext) {
			pods, created := createPod(ctx, func(*corev1.Pod) {})
			Expect(change(ctx, pods, created)).To(Succeed())
			_, err := pods.Update(ctx, pod("one"), metav1.UpdateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(Equal([]string{"spec"}))
		}, SpecTimeout(patience))
	}
})

// debugger is an ephemeral container.
func debugger(name string) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "example.com/debug:1"}}
}

var _ = Describe("a change of a Pod", func() {
	ungated := func(*corev1.Pod) {}
	gated := func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/a"}, {Name: "example.com/b"}}
		p.Spec.NodeSelector = map[string]string{"disk": "fast"}
	}
	attached := func(p *corev1.Pod) {
		gated(p)
		p.Spec.Affinity = onNodes(requirement("a"), requirement("b"))
	}
	near := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
	}}}
	for _, one := range []struct {
		what    string
		pod     func(*corev1.Pod)
		change  func(*corev1.Pod)
		refused string // the field that the error names, "" if it is accepted
	}{
		{"no tolerations", ungated, func(p *corev1.Pod) { p.Spec.Tolerations = nil }, ""},
		{"another time of a default toleration", ungated, func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = ptr.To[int64](1) }, ""},
		{"one more toleration", ungated, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists})
		}, ""},
		{"another effect of a toleration", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		}, func(p *corev1.Pod) { p.Spec.Tolerations[0].Effect = corev1.TaintEffectNoSchedule }, "spec.tolerations"},
		{"another priority", ungated, func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](1) }, "spec"},
		{"a priority class", ungated, func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }, "spec"},
		{"another policy of preemption", ungated, func(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }, "spec"},
		{"a service account", ungated, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" }, "spec"},
		{"a longer grace period", ungated, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](31) }, "spec"},
		{"a deadline", ungated, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](9) }, ""},
		{"a node selector", ungated, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, "spec"},
		{"a gate", ungated, gated, "spec.schedulingGates[0].name"},
		{"one gate less", gated, func(p *corev1.Pod) { p.Spec.SchedulingGates = p.Spec.SchedulingGates[1:] }, ""},
		{"no gates", gated, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, ""},
		{"another gate", gated, func(p *corev1.Pod) { p.Spec.SchedulingGates[1].Name = "example.com/c" }, "spec.schedulingGates[1].name"},
		{"a narrower node selector behind a gate", gated, func(p *corev1.Pod) { p.Spec.NodeSelector["zone"] = "a" }, ""},
		{"another node selector behind a gate", gated, func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "slow" }, "spec.nodeSelector"},
		{"no node selector behind a gate", gated, func(p *corev1.Pod) { p.Spec.NodeSelector = nil }, "spec.nodeSelector"},
		{"a node affinity behind a gate", gated, func(p *corev1.Pod) { p.Spec.Affinity = onNodes(requirement("a")) }, ""},
		{"an affinity to Pods behind a gate", gated, func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: near} }, "spec"},
		{"both affinities behind a gate", gated, func(p *corev1.Pod) {
			p.Spec.Affinity = onNodes(requirement("a"))
			p.Spec.Affinity.PodAntiAffinity = near
		}, "spec"},
		{"one more expression in a term", attached, func(p *corev1.Pod) { p.Spec.Affinity = onNodes(requirement("a", "c"), requirement("b")) }, ""},
		{"another expression in a term", attached, func(p *corev1.Pod) { p.Spec.Affinity = onNodes(requirement("a"), requirement("c")) },
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"},
		{"one more term", attached, func(p *corev1.Pod) { p.Spec.Affinity = onNodes(requirement("a"), requirement("b"), requirement("c")) },
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"},
		{"no affinity", attached, func(p *corev1.Pod) { p.Spec.Affinity = nil },
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"},
		{"a preference", attached, func(p *corev1.Pod) {
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: requirement("c")}}
		}, ""},
	} {
		verb := "is accepted: "
		if one.refused != "" {
			verb = "is refused: "
		}
		It(verb+one.what, func(ctx SpecContext) {
			pods, p := createPod(ctx, one.pod)
			one.change(p)
			_, err := pods.Update(ctx, p, metav1.UpdateOptions{})
			if one.refused == "" {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(ContainElement(one.refused))
		}, SpecTimeout(patience))
	}

	It("is accepted: no tolerations, in a patch", func(ctx SpecContext) {
		pods, created := createPod(ctx, ungated)
		patched, err := pods.Patch(ctx, "one", types.MergePatchType,
			[]byte(`{"spec":{"tolerations":null,"priority":null,"preemptionPolicy":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Spec).To(Equal(created.Spec))
	}, SpecTimeout(patience))

	It("adds ephemeral containers in any order, and takes none away", func(ctx SpecContext) {
		pods, p := createPod(ctx, ungated)
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debugger("a")}
		p, err := pods.UpdateEphemeralContainers(ctx, "one", p, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		p.Spec.EphemeralContainers = append([]corev1.EphemeralContainer{debugger("b")}, p.Spec.EphemeralContainers...)
		p, err = pods.UpdateEphemeralContainers(ctx, "one", p, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())

		renamed := p.DeepCopy()
		renamed.Spec.EphemeralContainers[1].Image = "example.com/debug:2"
		_, err = pods.UpdateEphemeralContainers(ctx, "one", renamed, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`existing ephemeral containers "a" may not be changed`)))
		p.Spec.EphemeralContainers = p.Spec.EphemeralContainers[:1]
		_, err = pods.UpdateEphemeralContainers(ctx, "one", p, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`existing ephemeral containers "a" may not be removed`)))
	}, SpecTimeout(patience))

	It("keeps what its status says of observed generations", func(ctx SpecContext) {
		pods, p := createPod(ctx, ungated)
		p.Status.ObservedGeneration = 7
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, ObservedGeneration: 5}}
		p, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		p.Status.ObservedGeneration = 0
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}
		p, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Status.ObservedGeneration).To(Equal(int64(7)))
		Expect(p.Status.Conditions[0].ObservedGeneration).To(BeZero())
		Expect(p.Status.Conditions[1].ObservedGeneration).To(Equal(int64(5)))
	}, SpecTimeout(patience))
})
