// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/nodes"
)

// In an environment of its own, containers that end by themselves run for an hour.
var _ = Describe("Pods that last", Ordered, ContinueOnFailure, func() {
	var (
		lasting *nodes.Nodes
		server  client.Client
		inside  *faults.Injector
	)
	BeforeAll(func(ctx SpecContext) {
		lasting, inside = nodes.New(nodes.Options{Schedule: true, RestartDelay: time.Millisecond, Completion: time.Hour}), faults.New()
		own := envtest.New(envtest.Options{Controllers: []envtest.Controller{lasting.Controller()}, Faults: inside})
		Expect(own.Start(ctx)).To(Succeed())
		DeferCleanup(own.Stop)
		var err error
		server, err = client.New(own.Config(), client.Options{})
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(patience))

	// add creates a Pod, and returns a function that reads it.
	add := func(ctx SpecContext, name string, change ...func(*corev1.Pod)) func() *corev1.Pod {
		GinkgoHelper()
		p := newPod("default", change...)
		p.Name = name
		return createAt(ctx, server, p)
	}

	// refuse refuses some of the writes of the status of a Pod.
	refuse := func(name string, skip, times int) *faults.Fault {
		GinkgoHelper()
		rule := faults.Rule{UserAgent: "nodes", Resource: "pods", Subresource: "status", Verb: "update", Name: name, Skip: skip, Times: times}
		refused, err := inside.Inject(rule, faults.Respond(errors.New("boom")))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(refused.End)
		return refused
	}

	It("start although a write of their start failed", func(ctx SpecContext) {
		refused := refuse("once-more", 1, 1)
		pod := add(ctx, "once-more")
		happens(ctx, refused, 1)
		Eventually(pod).Should(Satisfy(ready))
	})

	It("are delayed once for a start whose write failed", func(ctx SpecContext) {
		refused := refuse("delayed", 1, 2)
		delay, err := lasting.Inject(nodes.Rule{Name: "delayed"}, nodes.Delay(time.Millisecond))
		Expect(err).NotTo(HaveOccurred())
		pod := add(ctx, "delayed")
		happens(ctx, refused, 2)
		Eventually(pod).Should(Satisfy(ready))
		Expect(delay.Hits()).To(Equal(1))
	})

	It("are not delayed any more when the fault has ended", func(ctx SpecContext) {
		delay, err := lasting.Inject(nodes.Rule{Name: "kept"}, nodes.Delay(time.Hour))
		Expect(err).NotTo(HaveOccurred())
		pod := add(ctx, "kept")
		happens(ctx, delay, 1)
		delay.End()
		Eventually(pod).Should(Satisfy(ready))
	})

	It("have not done their work when they are deleted", func(ctx SpecContext) {
		pod := add(ctx, "job", with(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Finalizers = []string{"example.com/keep"}
			p.Spec.InitContainers = []corev1.Container{{Name: "sidecar", Image: "i", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		})
		Eventually(pod).Should(Satisfy(ready))
		Expect(server.Delete(ctx, pod())).To(Succeed())
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodFailed))
		Expect(pod().Status.ContainerStatuses[0].State.Terminated.ExitCode).To(BeEquivalentTo(143))
		Expect(pod().Status.InitContainerStatuses[0].State.Terminated.ExitCode).To(BeZero())
	})

	It("go on while a sidecar of theirs is down", func(ctx SpecContext) {
		pod := add(ctx, "beside", with(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "sidecar", Image: "i", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		})
		Eventually(pod).Should(Satisfy(ready))
		_, err := lasting.Inject(nodes.Rule{Name: "beside", Container: "sidecar"}, nodes.FailPull())
		Expect(err).NotTo(HaveOccurred())
		down, err := lasting.Inject(nodes.Rule{Name: "beside", Container: "sidecar", Times: 1}, nodes.Crash(1))
		Expect(err).NotTo(HaveOccurred())
		happens(ctx, down, 1)
		crash, err := lasting.Inject(nodes.Rule{Name: "beside", Container: "main", Times: 1}, nodes.Crash(7))
		Expect(err).NotTo(HaveOccurred())
		happens(ctx, crash, 1)
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodFailed))
		Expect(conditions(pod())).To(HaveKeyWithValue(corev1.PodInitialized, corev1.ConditionTrue))
	})

	It("are pending until each container has run", func(ctx SpecContext) {
		pull, err := lasting.Inject(nodes.Rule{Name: "two", Container: "other"}, nodes.FailPull())
		Expect(err).NotTo(HaveOccurred())
		pod := add(ctx, "two", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "i"})
		})
		happens(ctx, pull, 1)
		Expect(pod().Status.Phase).To(Equal(corev1.PodPending))
		Expect(pod().Status.ContainerStatuses[0].State.Running).NotTo(BeNil())
		pull.End()
		Eventually(pod).Should(Satisfy(ready))
	})

	It("are kept from being ready by their containers, and not by those that come before", func(ctx SpecContext) {
		fault, err := lasting.Inject(nodes.Rule{Name: "unready", Times: 1}, nodes.StayUnready())
		Expect(err).NotTo(HaveOccurred())
		short, err := lasting.Inject(nodes.Rule{Name: "unready", Container: "before", Times: 1}, nodes.Crash(1))
		Expect(err).NotTo(HaveOccurred())
		pod := add(ctx, "unready", with(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "before", Image: "i"}}
		})
		happens(ctx, short, 1)
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodFailed))
		Expect(fault.Hits()).To(BeZero())
	})

	It("count for the fault that takes over", func(ctx SpecContext) {
		pod := add(ctx, "handed-over")
		Eventually(pod).Should(Satisfy(ready))
		first, err := lasting.Inject(nodes.Rule{Name: "handed-over"}, nodes.StayUnready())
		Expect(err).NotTo(HaveOccurred())
		happens(ctx, first, 1)
		second, err := lasting.Inject(nodes.Rule{Name: "handed-over", Times: 1}, nodes.StayUnready())
		Expect(err).NotTo(HaveOccurred())
		first.End()
		happens(ctx, second, 1)
		Expect(ready(pod())).To(BeFalse())
		second.End()
		Eventually(pod).Should(Satisfy(ready))
	})

	It("go to a node that has got the label of their selector, or the name of any term", func(ctx SpecContext) {
		node := &corev1.Node{}
		Eventually(func() error { return server.Get(ctx, client.ObjectKey{Name: "node-0"}, node) }).Should(Succeed())
		node.Labels["gpu"] = "yes"
		Expect(server.Patch(ctx, node, client.Merge)).To(Succeed())
		pod := add(ctx, "gpu", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"gpu": "yes"}
			named := func(name string) corev1.NodeSelectorTerm {
				return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
				}}}
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{named("another"), named("node-0")}},
			}}
		})
		Eventually(pod).Should(Satisfy(ready))
	})

	It("have a node that stays away when it was stopped and deleted", func(ctx SpecContext) {
		node := &corev1.Node{}
		Eventually(func() error { return server.Get(ctx, client.ObjectKey{Name: "node-0"}, node) }).Should(Succeed())
		Expect(lasting.Stop("node-0")).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(server.Get(ctx, client.ObjectKey{Name: "node-0"}, node)).To(Succeed())
			g.Expect(node.Status.Conditions).To(ContainElement(HaveField("Status", corev1.ConditionUnknown)))
		}).Should(Succeed())
		Expect(server.Delete(ctx, node)).To(Succeed())
		Consistently(func() error { return server.Get(ctx, client.ObjectKey{Name: "node-0"}, node) }, "300ms").ShouldNot(Succeed())
		Expect(lasting.Start("node-0")).To(Succeed())
		Eventually(func() error { return server.Get(ctx, client.ObjectKey{Name: "node-0"}, node) }).Should(Succeed())
	})
})
