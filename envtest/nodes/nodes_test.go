// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/nodes"
)

var _ = Describe("Nodes", func() {
	It("are ready, have room and a Lease", func(ctx SpecContext) {
		for _, name := range machines.Names() {
			Eventually(func(g Gomega) {
				node, lease := &corev1.Node{}, &coordinationv1.Lease{}
				g.Expect(api.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())
				g.Expect(node.Labels).To(And(HaveKeyWithValue("disk", "fast"), HaveKeyWithValue(corev1.LabelHostname, name)))
				g.Expect(node.Status.Allocatable.Cpu().IsZero()).To(BeFalse())
				g.Expect(readiness(node)).To(Equal(corev1.ConditionTrue))
				g.Expect(node.Spec.Taints).To(BeEmpty(), "a scheduler takes it")
				g.Expect(api.Get(ctx, client.ObjectKey{Namespace: "kube-node-lease", Name: name}, lease)).To(Succeed())
				g.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(name)))
			}).Should(Succeed())
		}
	})

	It("freeze their Pods while they are stopped", func(ctx SpecContext) {
		name, ns := machines.Names()[0], newNamespace(ctx)
		status := func() corev1.ConditionStatus {
			node := &corev1.Node{}
			_ = api.Get(ctx, client.ObjectKey{Name: name}, node)
			return readiness(node)
		}
		Eventually(status).Should(Equal(corev1.ConditionTrue))
		DeferCleanup(machines.Start, name)
		Expect(machines.Stop(name)).To(Succeed())
		Eventually(status).Should(Equal(corev1.ConditionUnknown))
		frozen := create(ctx, newPod(ns, func(p *corev1.Pod) { p.Spec.NodeName = name }))
		other := create(ctx, newPod(ns, func(p *corev1.Pod) { p.Name = "other" }))
		Eventually(other).Should(Satisfy(ready))
		Expect(other().Spec.NodeName).To(Equal(machines.Names()[1]))
		Expect(frozen().Status.StartTime).To(BeNil())
		Expect(machines.Start(name)).To(Succeed())
		Eventually(frozen).Should(Satisfy(ready))
	})

	It("come back when they are deleted", func(ctx SpecContext) {
		name := machines.Names()[0]
		was := &corev1.Node{}
		Eventually(func() error { return api.Get(ctx, client.ObjectKey{Name: name}, was) }).Should(Succeed())
		Expect(api.Delete(ctx, was)).To(Succeed())
		Eventually(func(g Gomega) {
			now := &corev1.Node{}
			g.Expect(api.Get(ctx, client.ObjectKey{Name: name}, now)).To(Succeed())
			g.Expect(now.UID).NotTo(Equal(was.UID))
			g.Expect(readiness(now)).To(Equal(corev1.ConditionTrue))
		}).Should(Succeed())
	})

	It("are known by their names", func() {
		Expect(machines.Stop("no-such")).To(MatchError(ContainSubstring(`no node "no-such"`)))
	})

	It("run in one environment at a time", func(ctx SpecContext) {
		env := envtest.New(envtest.Options{Controllers: []envtest.Controller{machines.Controller()}})
		Expect(env.Start(ctx)).To(Succeed())
		Expect(env.Stop()).To(MatchError(ContainSubstring("run in another environment")))
	})

	DescribeTable("options that are refused at the door", func(ctx SpecContext, o nodes.Options, why string) {
		err := envtest.New(envtest.Options{Controllers: []envtest.Controller{nodes.New(o).Controller()}}).Start(ctx)
		Expect(err).To(MatchError(ContainSubstring(why)))
	},
		Entry(nil, nodes.Options{Count: -1}, "nodes.Options.Count"),
		Entry(nil, nodes.Options{Name: "Not A Name"}, "nodes.Options.Name"),
		Entry(nil, nodes.Options{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"bad key!": ""}}}}, "nodes.Options.Node: labels"),
		Entry(nil, nodes.Options{Completion: -1}, "nodes.Options.Completion"),
		Entry(nil, nodes.Options{RestartDelay: -1}, "nodes.Options.RestartDelay"),
	)
})

// readiness returns the status of the condition Ready.
func readiness(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

var _ = Describe("Pods", func() {
	It("run, and are ready", func(ctx SpecContext) {
		pod := create(ctx, newPod(newNamespace(ctx)))
		Eventually(pod).Should(Satisfy(ready))
		now := pod()
		Expect(machines.Names()).To(ContainElement(now.Spec.NodeName))
		Expect(now.Status.PodIP).NotTo(BeEmpty())
		Expect(now.Status.StartTime).NotTo(BeNil())
		Expect(now.Status.ContainerStatuses[0].State.Running).NotTo(BeNil())
	})

	It("have their init containers run before, one after the other", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		fault := inject(ns, nodes.FailPull(), 0)
		pod := create(ctx, newPod(ns, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "first", Image: "i"},
				{Name: "sidecar", Image: "i", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
				{Name: "last", Image: "i"},
			}
		}))
		happens(ctx, fault, 2)
		now := pod()
		Expect(now.Status.InitContainerStatuses[1].State.Waiting.Reason).To(Equal("PodInitializing"))
		Expect(waits(now)).To(Equal("PodInitializing"))
		fault.End()
		Eventually(pod).Should(Satisfy(ready))
		now = pod()
		Expect(now.Status.InitContainerStatuses[0].State.Terminated.Reason).To(Equal("Completed"))
		Expect(now.Status.InitContainerStatuses[1].State.Running).NotTo(BeNil())
		Expect(now.Status.InitContainerStatuses[2].State.Terminated.ExitCode).To(BeZero())
	})

	It("succeed if they do not always restart", func(ctx SpecContext) {
		pod := create(ctx, newPod(newNamespace(ctx), with(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "sidecar", Image: "i", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		}))
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodSucceeded))
		Expect(pod().Status.InitContainerStatuses[0].State.Terminated).NotTo(BeNil())
	})

	It("fail when their time is over", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		later := create(ctx, newPod(ns, func(p *corev1.Pod) { p.Name, p.Spec.ActiveDeadlineSeconds = "later", ptr.To(int64(3600)) }))
		pod := create(ctx, newPod(ns, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(1)) }))
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodFailed))
		Expect(pod().Status.Reason).To(Equal("DeadlineExceeded"))
		Eventually(later).Should(Satisfy(ready))
	})

	It("have containers with a restart policy of their own", func(ctx SpecContext) {
		pod := create(ctx, newPod(newNamespace(ctx), with(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "once", Image: "i"})
		}))
		Eventually(func() *corev1.ContainerStateTerminated {
			if p := pod(); len(p.Status.ContainerStatuses) > 1 {
				return p.Status.ContainerStatuses[1].State.Terminated
			}
			return nil
		}).ShouldNot(BeNil())
		Expect(pod().Status.Phase).To(Equal(corev1.PodRunning))
		Expect(pod().Status.ContainerStatuses[0].State.Running).NotTo(BeNil())
	})

	It("go when they are deleted", func(ctx SpecContext) {
		pod := create(ctx, newPod(newNamespace(ctx), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} }))
		Eventually(pod).Should(Satisfy(ready))
		Expect(api.Delete(ctx, pod())).To(Succeed())
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodSucceeded))
		Eventually(func() *int64 { return pod().DeletionGracePeriodSeconds }).Should(HaveValue(BeZero()))
		Expect(api.Patch(ctx, pod(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Eventually(pod).Should(BeNil())
	})

	It("are begun by a node when somebody else has written their status", func(ctx SpecContext) {
		name := machines.Names()[0]
		DeferCleanup(machines.Start, name)
		Expect(machines.Stop(name)).To(Succeed())
		pod := create(ctx, newPod(newNamespace(ctx), func(p *corev1.Pod) { p.Spec.NodeName = name }))
		written := pod()
		written.Status = corev1.PodStatus{Phase: corev1.PodPending, StartTime: ptr.To(metav1.Now())}
		Expect(api.Status().Update(ctx, written)).To(Succeed())
		Expect(machines.Start(name)).To(Succeed())
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodRunning))
		Eventually(pod).Should(Satisfy(ready))
	})

	It("wait for a node that has the labels of their selector", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		none := create(ctx, newPod(ns, func(p *corev1.Pod) { p.Name, p.Spec.NodeSelector = "none", map[string]string{"disk": "slow"} }))
		fits := create(ctx, newPod(ns, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "fast"} }))
		Eventually(fits).Should(Satisfy(ready))
		Expect(none().Spec.NodeName).To(BeEmpty())
	})
})

var _ = Describe("Failures", func() {
	It("crash a container so many times, which starts again", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		fault := inject(ns, nodes.Crash(3), 2)
		pod := create(ctx, newPod(ns))
		happens(ctx, fault, 2)
		Eventually(pod).Should(Satisfy(ready))
		c := pod().Status.ContainerStatuses[0]
		Expect(c.RestartCount).To(BeEquivalentTo(2))
		Expect(c.LastTerminationState.Terminated.ExitCode).To(BeEquivalentTo(3))
		Expect(fault.Hits()).To(Equal(2))
	})

	It("fail a Pod that never restarts", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		inject(ns, nodes.Crash(1), 1)
		pod := create(ctx, newPod(ns, with(corev1.RestartPolicyNever)))
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodFailed))
		Expect(pod().Status.ContainerStatuses[0].State.Terminated.Reason).To(Equal("Error"))
	})

	It("are restarted from by the rules of a container, and its policy if none means the exit code", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		rule := corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		}}
		fault := inject(ns, nodes.Crash(42), 2)
		pod := create(ctx, newPod(ns, with(corev1.RestartPolicyAlways), func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{rule}
		}))
		happens(ctx, fault, 2)
		Eventually(func() corev1.PodPhase { return phase(pod()) }).Should(Equal(corev1.PodSucceeded))
		Expect(pod().Status.ContainerStatuses[0].RestartCount).To(BeEquivalentTo(2))

		inject(ns, nodes.Crash(43), 0)
		other := pod()
		other.ObjectMeta = metav1.ObjectMeta{Namespace: ns, Name: "other"}
		other.Spec.NodeName = ""
		again := create(ctx, other)
		Eventually(func() corev1.PodPhase { return phase(again()) }).Should(Equal(corev1.PodFailed))
		Expect(again().Status.ContainerStatuses[0].RestartCount).To(BeZero())
	})

	It("are counted once when the answer of a write is lost", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		lost, err := injector.Inject(faults.Rule{UserAgent: "nodes", Namespace: ns, Resource: "pods", Subresource: "status", Verb: "update", Skip: 1, Times: 3}, faults.DropAnswer())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(lost.End)
		fault := inject(ns, nodes.Crash(1), 1)
		pod := create(ctx, newPod(ns))
		happens(ctx, lost, 3)
		Eventually(pod).Should(Satisfy(ready))
		Expect(fault.Hits()).To(Equal(1))
		Expect(pod().Status.ContainerStatuses[0].RestartCount).To(BeEquivalentTo(1))
	})

	It("keep an image from being pulled, until they end", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		fault := inject(ns, nodes.FailPull(), 0)
		seen := reasons(ctx, ns)
		pod := create(ctx, newPod(ns))
		happens(ctx, fault, 3)
		Eventually(seen).Should(Receive(Equal("ErrImagePull")))
		Eventually(seen).Should(Receive(Equal("ImagePullBackOff")))
		Expect(pod().Status.Phase).To(Equal(corev1.PodPending))
		fault.End()
		Eventually(pod).Should(Satisfy(ready))
		Expect(pod().Status.ContainerStatuses[0].RestartCount).To(BeZero())
	})

	It("keep a Pod from being ready, and let it be", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		pod := create(ctx, newPod(ns))
		Eventually(pod).Should(Satisfy(ready))
		fault := inject(ns, nodes.StayUnready(), 0)
		Eventually(pod).ShouldNot(Satisfy(ready))
		happens(ctx, fault, 1)
		Expect(pod().Status.Phase).To(Equal(corev1.PodRunning))
		fault.End()
		Eventually(pod).Should(Satisfy(ready))
		Expect(fault.Hits()).To(Equal(1))
	})

	It("delay a start", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		fault := inject(ns, nodes.Delay(time.Hour), 1)
		pod := create(ctx, newPod(ns))
		happens(ctx, fault, 1)
		other := create(ctx, newPod(ns, func(p *corev1.Pod) { p.Name = "other" }))
		Eventually(other).Should(Satisfy(ready))
		Expect(waits(pod())).To(Equal("ContainerCreating"))
	})

	It("evict a Pod", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		pod := create(ctx, newPod(ns))
		Eventually(pod).Should(Satisfy(ready))
		inject(ns, nodes.Evict(), 1)
		Eventually(func() string { return pod().Status.Reason }).Should(Equal("Evicted"))
		Expect(pod().Status.Phase).To(Equal(corev1.PodFailed))
		Expect(pod().Status.ContainerStatuses[0].State.Terminated.ExitCode).To(BeEquivalentTo(137))
		Expect(conditions(pod())).To(HaveKeyWithValue(corev1.DisruptionTarget, corev1.ConditionTrue))
	})

	It("are for the Pods and containers of their rule", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		labels := map[string]string{"app": "other"}
		fault, err := machines.Inject(nodes.Rule{Namespace: ns, Labels: labels, Container: "second"}, nodes.StayUnready())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(fault.End)
		labels["app"] = "web" // the rule has a copy
		left := create(ctx, newPod(ns))
		hit := create(ctx, newPod(ns, func(p *corev1.Pod) {
			p.Name, p.Labels["app"] = "other", "other"
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "i"})
		}))
		Eventually(left).Should(Satisfy(ready))
		happens(ctx, fault, 1)
		Expect(hit().Status.ContainerStatuses[0].Ready).To(BeTrue())
		Expect(hit().Status.ContainerStatuses[1].Ready).To(BeFalse())
	})

	DescribeTable("that are refused", func(r nodes.Rule, f nodes.Failure, why string) {
		_, err := machines.Inject(r, f)
		Expect(err).To(MatchError(ContainSubstring(why)))
	},
		Entry(nil, nodes.Rule{}, nodes.Failure{}, "the failure is none"),
		Entry(nil, nodes.Rule{}, nodes.Crash(0), "no crash"),
		Entry(nil, nodes.Rule{}, nodes.Delay(0), "no delay"),
		Entry(nil, nodes.Rule{Container: "c"}, nodes.Evict(), "Rule.Container"),
		Entry(nil, nodes.Rule{Times: -1}, nodes.FailPull(), "Rule.Times"),
	)

	It("are not waited for when they have ended", func(ctx SpecContext) {
		fault := inject("no-such", nodes.FailPull(), 0)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		Expect(fault.Wait(ended, 1)).To(MatchError(context.Canceled))
		fault.End()
		fault.End()
		Expect(fault.Wait(ctx, 1)).To(MatchError(ContainSubstring("has ended after 0 of 1")))
		Expect(inject("no-such", nodes.FailPull(), 2).Wait(ended, 3)).To(MatchError(ContainSubstring("2 times at most")))
	})
})

// reasons returns a channel of why the container of a Pod waits, as a watch shows it.
func reasons(ctx context.Context, ns string) chan string {
	GinkgoHelper()
	watching, err := client.NewWithWatch(env.Config(), client.Options{})
	Expect(err).NotTo(HaveOccurred())
	w, err := watching.Watch(ctx, &corev1.PodList{}, client.InNamespace(ns))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.Stop)
	out := make(chan string, 1000)
	go func() {
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Modified {
				if why := waits(p); why != "" {
					select {
					case out <- why:
					default:
					}
				}
			}
		}
	}()
	return out
}
