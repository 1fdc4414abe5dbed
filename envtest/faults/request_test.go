// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest/faults"
)

var conflict = apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "one", errors.New("somebody else was faster"))

func inject(r faults.Rule, a faults.Action) *faults.Fault {
	GinkgoHelper()
	f, err := injector.Inject(r, a)
	Expect(err).NotTo(HaveOccurred())
	return f
}

var _ = Describe("a request", func() {
	var (
		ns      string
		one     kubernetes.Interface
		another kubernetes.Interface
	)
	create := func(ctx context.Context, by kubernetes.Interface, name string) error {
		_, err := by.CoreV1().ConfigMaps(ns).Create(ctx, configMap(name), metav1.CreateOptions{})
		return err
	}
	exists := func(ctx context.Context, name string) bool {
		GinkgoHelper()
		_, err := another.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
		Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		return err == nil
	}
	BeforeEach(func(ctx SpecContext) {
		ns = namespace(ctx)
		one, another = user("one", "application/json"), user("another", "application/vnd.kubernetes.protobuf")
	})

	It("gets an error as often as the rule says, and has no effect", func(ctx SpecContext) {
		fault := inject(faults.Rule{Verb: "create", Group: "core", Resource: "configmaps", User: "one", Skip: 1, Times: 2}, faults.Respond(conflict))
		Expect(create(ctx, one, "a")).To(Succeed())
		Expect(create(ctx, another, "x")).To(Succeed())
		for range 2 {
			err := create(ctx, one, "b")
			Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring("somebody else was faster")))
			Expect(exists(ctx, "b")).To(BeFalse())
		}
		Expect(fault.Wait(ctx, 2)).To(Succeed())
		Expect(create(ctx, one, "b")).To(Succeed())
		Expect(fault.Hits()).To(Equal(2))
		Expect(fault.Wait(ctx, 3)).To(MatchError(ContainSubstring("hit 2 times, not 3, and its rule allows no more")))
		endless := inject(faults.Rule{Verb: "create", Resource: "secrets"}, faults.DropRequest())
		Expect(endless.Wait(expired(), 1)).To(MatchError(context.Canceled))
		endless.End()
		Expect(endless.Wait(ctx, 1)).To(MatchError(ContainSubstring("has ended")))
	}, SpecTimeout(patience))

	It("is told when to come again", func(ctx SpecContext) {
		fault := inject(faults.Rule{Verb: "get", Resource: "configmaps", Times: 1}, faults.Respond(apierrors.NewTooManyRequests("come again", 1)))
		Expect(exists(ctx, "a")).To(BeFalse(), "client-go asks again")
		Expect(fault.Hits()).To(Equal(1))
	}, SpecTimeout(patience))

	It("is known by the name of the object that it creates", func(ctx SpecContext) {
		fault := inject(faults.Rule{Verb: "create", Resource: "configmaps", Namespace: ns, Name: "b"}, faults.Respond(errors.New("out of order")))
		for _, by := range []kubernetes.Interface{one, another} {
			Expect(create(ctx, by, "b")).To(MatchError(ContainSubstring("out of order")))
		}
		Expect(create(ctx, one, "a")).To(Succeed())
		Expect(create(ctx, another, "c")).To(Succeed())
		Expect(fault.Hits()).To(Equal(2))
	}, SpecTimeout(patience))

	It("means a subresource only if the rule does", func(ctx SpecContext) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		pods := one.CoreV1().Pods(ns)
		pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		status := inject(faults.Rule{Verb: "update", Resource: "pods", Subresource: "status"}, faults.Respond(conflict))
		pod, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		status.End()
		inject(faults.Rule{Verb: "update", Resource: "pods", Subresource: "-"}, faults.Respond(conflict))
		_, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	DescribeTable("whose connection is cut", func(ctx SpecContext, action faults.Action, effect bool) {
		for n, by := range map[string]kubernetes.Interface{"json": one, "protobuf": another} {
			fault := inject(faults.Rule{Verb: "create", Resource: "configmaps", Times: 1}, action)
			err := create(ctx, by, n)
			Expect(err).To(HaveOccurred())
			Expect(apierrors.ReasonForError(err)).To(Equal(metav1.StatusReasonUnknown), "%v", err)
			Expect(fault.Hits()).To(Equal(1))
			Expect(exists(ctx, n)).To(Equal(effect))
			fault.End()
		}
	},
		Entry("before it is seen", faults.DropRequest(), false, SpecTimeout(patience)),
		Entry("after it took effect", faults.DropAnswer(), true, SpecTimeout(patience)),
		Entry("within the answer", faults.HalfAnswer(), true, SpecTimeout(patience)),
	)

	It("waits", func(ctx SpecContext) {
		late := inject(faults.Rule{Verb: "create", Resource: "configmaps", Times: 1}, faults.Delay(time.Hour))
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		gone := make(chan error, 1)
		go func() { gone <- create(short, one, "a") }()
		Expect(late.Wait(ctx, 1)).To(Succeed())
		cancel()
		Expect(<-gone).To(MatchError(context.Canceled))
		inject(faults.Rule{Verb: "create", Resource: "configmaps", Times: 1}, faults.Delay(time.Millisecond))
		Expect(create(ctx, one, "b")).To(Succeed())
		Expect(exists(ctx, "a")).To(BeFalse())

		By("ending what makes it wait")
		long, done := inject(faults.Rule{Verb: "create", Resource: "configmaps"}, faults.Delay(time.Hour)), make(chan error, 1)
		go func() { done <- create(ctx, one, "c") }()
		Expect(long.Wait(ctx, 1)).To(Succeed())
		long.End()
		Expect(<-done).To(Succeed())
	}, SpecTimeout(patience))

	It("and not a watch has an answer that can be lost", func(ctx SpecContext) {
		fault := inject(faults.Rule{Resource: "configmaps", Times: 1}, faults.HalfAnswer())
		w, err := one.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		w.Stop()
		Expect(fault.Hits()).To(BeZero())
		Expect(create(ctx, one, "a")).NotTo(Succeed())
	}, SpecTimeout(patience))

	It("is held until it is let go", func(ctx SpecContext) {
		hold, err := injector.Hold(faults.Rule{Verb: "create", Resource: "configmaps", UserAgent: "agent-of-application/json"})
		Expect(err).NotTo(HaveOccurred())
		done := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			go func() { done <- create(ctx, one, name) }()
		}
		Expect(hold.Wait(ctx, 2)).To(Succeed())
		Expect(create(ctx, another, "c")).To(Succeed())
		Expect(exists(ctx, "a") || exists(ctx, "b")).To(BeFalse())
		first, err := hold.Next(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(first).To(And(HaveField("Verb", "create"), HaveField("Resource", "configmaps"), HaveField("Namespace", ns)))
		Expect(<-done).To(Succeed())
		Expect(exists(ctx, "a") != exists(ctx, "b")).To(BeTrue())
		hold.End()
		Expect(<-done).To(Succeed())
		Expect(hold.Held()).To(BeEmpty())
	}, SpecTimeout(patience))

	It("has taken effect when its answer is held", func(ctx SpecContext) {
		hold, err := injector.HoldAnswers(faults.Rule{Verb: "create", Resource: "configmaps", User: "one"})
		Expect(err).NotTo(HaveOccurred())
		done := make(chan error, 1)
		go func() { done <- create(ctx, one, "a") }()
		Expect(hold.Wait(ctx, 1)).To(Succeed())
		Expect(exists(ctx, "a")).To(BeTrue())
		Expect(done).NotTo(Receive())
		Expect(hold.Release(1)).To(ConsistOf(And(HaveField("Verb", "create"), HaveField("Name", "a"))))
		Expect(<-done).To(Succeed(), "the whole answer arrives")

		By("going before it comes")
		mine, cancel := context.WithCancel(ctx)
		go func() { done <- create(mine, one, "b") }()
		Expect(hold.Wait(ctx, 1)).To(Succeed())
		cancel()
		Expect(<-done).To(MatchError(context.Canceled))
		Eventually(hold.Held).WithContext(ctx).Should(BeEmpty())
		Expect(exists(ctx, "b")).To(BeTrue())
		_, err = injector.HoldAnswers(faults.Rule{Verb: "watch"})
		Expect(err).To(MatchError(ContainSubstring("has none: use Cut")))
		_, err = injector.HoldAnswers(faults.Rule{Type: "ADDED"})
		Expect(err).To(MatchError(ContainSubstring("answers have none")))
	}, SpecTimeout(patience))

	It("has room in a hold for its answer, or passes", func(ctx SpecContext) {
		small := faults.NewHolding(1)
		hold, err := small.HoldAnswers(faults.Rule{Verb: "list", Resource: "configmaps"})
		Expect(err).NotTo(HaveOccurred())
		config, err := small.NewProxy(ctx, env.Config())
		Expect(err).NotTo(HaveOccurred())
		_, err = clientOf(config, "application/json").CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(hold.Hits()).To(Equal(1))
		Expect(hold.Held()).To(BeEmpty())
	}, SpecTimeout(patience))

	It("is chosen by a function", func(ctx SpecContext) {
		asked := make(chan faults.Held, 10)
		refused := inject(faults.Rule{Resource: "configmaps", Group: "core", User: "one", When: func(h faults.Held) bool {
			asked <- h
			return h.Name == "b"
		}}, faults.Respond(conflict))
		Expect(create(ctx, one, "a")).To(Succeed())
		Expect(create(ctx, another, "b")).To(Succeed(), "another user")
		Expect(apierrors.IsConflict(create(ctx, one, "b"))).To(BeTrue())
		first := <-asked
		Expect(first.UserAgent).NotTo(BeEmpty())
		first.UserAgent = ""
		Expect(first).To(Equal(faults.Held{Verb: "create", Group: "core", Resource: "configmaps", Namespace: ns, Name: "a"}))
		Expect((<-asked).Name).To(Equal("b"))
		_, err := one.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(<-asked).To(And(HaveField("Name", ""), HaveField("GenerateName", "c-")))
		_, err = one.CoreV1().ConfigMaps(ns).Get(ctx, "b", metav1.GetOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue())
		Expect(refused.Hits()).To(Equal(2))
	}, SpecTimeout(patience))

	It("is forgotten by a hold when its client gives up", func(ctx SpecContext) {
		hold, err := injector.Hold(faults.Rule{Verb: "create", Resource: "configmaps"})
		Expect(err).NotTo(HaveOccurred())
		mine, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- create(mine, one, "a") }()
		Expect(hold.Wait(ctx, 1)).To(Succeed())
		cancel()
		Expect(<-done).To(MatchError(context.Canceled))
		Eventually(hold.Held).WithContext(ctx).Should(BeEmpty())
		hold.End()
		Expect(exists(ctx, "a")).To(BeFalse())
	}, SpecTimeout(patience))
})

// expired is a context that has ended.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

var _ = DescribeTable("a rule that matches nothing is refused", func(r faults.Rule, action faults.Action, want string) {
	_, err := injector.Inject(r, action)
	Expect(err).To(MatchError(ContainSubstring(want)))
},
	Entry("with a verb of HTTP", faults.Rule{Verb: http.MethodPost}, faults.DropRequest(), "the verbs are get"),
	Entry("with a kind", faults.Rule{Resource: "Pods"}, faults.DropRequest(), "in lower case"),
	Entry("with a subresource in the resource", faults.Rule{Resource: "pods/status"}, faults.DropRequest(), "a field of its own"),
	Entry("with a type of no event", faults.Rule{Verb: "watch", Type: "CREATED"}, faults.Cut(1), "one of ADDED"),
	Entry("with a type of requests", faults.Rule{Verb: "get", Type: "ADDED"}, faults.DropRequest(), "events of watches have a type"),
	Entry("with negative numbers", faults.Rule{Times: -1}, faults.DropRequest(), "negative"),
	Entry("with nothing to happen", faults.Rule{}, nil, "no action"),
	Entry("with an answer to a watch", faults.Rule{Verb: "watch"}, faults.DropAnswer(), "use Cut"),
	Entry("with events of other requests", faults.Rule{Verb: "get"}, faults.Cut(1), `must be "watch"`),
	Entry("with fewer than no events", faults.Rule{Verb: "watch"}, faults.Cut(-1), "fewer than no"),
)
