// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/tarn-dev/tarn/envtest/faults"
)

// event waits for the next event and describes it.
func event(ctx context.Context, w watch.Interface) string {
	GinkgoHelper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "end"
		}
		if e.Type == watch.Error {
			return fmt.Sprint("ERROR ", apierrors.FromObject(e.Object))
		}
		return fmt.Sprint(e.Type, " ", e.Object.(metav1.Object).GetName())
	case <-ctx.Done():
		Fail("there was no event: " + ctx.Err().Error())
		return ""
	}
}

var _ = Describe("a watch", func() {
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		Context("of "+contentType, func() { watches(contentType) })
	}
})

func watches(contentType string) {
	var (
		ns     string
		client kubernetes.Interface
		name   string
	)
	BeforeEach(func(ctx SpecContext) {
		ns, name = namespace(ctx), "watcher-"+contentType[12:15]
		client = user(name, contentType)
	})
	follow := func(ctx context.Context) watch.Interface {
		GinkgoHelper()
		w, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		return w
	}
	create := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		for _, name := range names {
			_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, configMap(name), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}
	hold := func(r faults.Rule) *faults.Hold {
		GinkgoHelper()
		r.Verb, r.Resource = "watch", "configmaps"
		h, err := injector.Hold(r)
		Expect(err).NotTo(HaveOccurred())
		return h
	}

	It("that is open gets one event at a time", func(ctx SpecContext) {
		w := follow(ctx)
		create(ctx, "a")
		Expect(event(ctx, w)).To(Equal("ADDED a"))
		h := hold(faults.Rule{User: name})
		create(ctx, "b", "c", "d")
		Expect(h.Wait(ctx, 3)).To(Succeed())
		Expect(fmt.Sprint(h.Held())).To(Equal(fmt.Sprintf("[ADDED configmaps %[1]s/b ADDED configmaps %[1]s/c ADDED configmaps %[1]s/d]", ns)))
		Expect(w.ResultChan()).NotTo(Receive())
		next, err := h.Next(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(next).To(And(HaveField("Type", "ADDED"), HaveField("Name", "b"), HaveField("Group", "core"), HaveField("ResourceVersion", Not(BeEmpty()))))
		Expect(event(ctx, w)).To(Equal("ADDED b"))
		Expect(w.ResultChan()).NotTo(Receive())
		create(ctx, "e")
		Expect(h.Wait(ctx, 3)).To(Succeed())
		h.End()
		for _, want := range []string{"c", "d", "e"} {
			Expect(event(ctx, w)).To(Equal("ADDED " + want))
		}
		create(ctx, "f")
		Expect(event(ctx, w)).To(Equal("ADDED f"))
	}, SpecTimeout(patience))

	It("has events that a function chooses", func(ctx SpecContext) {
		var asked []string // the events of one watch come one after the other
		h := hold(faults.Rule{User: name, When: func(e faults.Held) bool {
			asked = append(asked, fmt.Sprintf("%s %s %s %s", e.Verb, e.Type, e.Name, e.GenerateName))
			return len(asked) == 2
		}})
		w := follow(ctx)
		create(ctx, "a")
		Expect(event(ctx, w)).To(Equal("ADDED a"))
		made, err := client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(h.Wait(ctx, 1)).To(Succeed())
		h.End()
		Expect(event(ctx, w)).To(Equal("ADDED " + made.Name))
		Expect(asked).To(Equal([]string{"watch ADDED a ", "watch ADDED " + made.Name + " b-"}))
	}, SpecTimeout(patience))

	It("keeps the order of its events when those of one object are held", func(ctx SpecContext) {
		other, err := user("other", contentType).CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		defer other.Stop()
		h, w := hold(faults.Rule{Namespace: ns, Name: "b", User: name}), follow(ctx)
		create(ctx, "a", "b", "c")
		Expect(event(ctx, w)).To(Equal("ADDED a"))
		Expect(h.Wait(ctx, 1)).To(Succeed())
		for _, want := range []string{"a", "b", "c"} {
			Expect(event(ctx, other)).To(Equal("ADDED " + want))
		}
		Expect(w.ResultChan()).NotTo(Receive())
		Expect(h.Release(1)).To(HaveLen(1))
		Expect(event(ctx, w)).To(Equal("ADDED b"))
		Expect(event(ctx, w)).To(Equal("ADDED c"))
	}, SpecTimeout(patience))

	It("leaves nothing in a hold when it ends", func(ctx SpecContext) {
		h, w := hold(faults.Rule{}), follow(ctx)
		create(ctx, "a")
		Expect(h.Wait(ctx, 1)).To(Succeed())
		w.Stop()
		Eventually(h.Held).WithContext(ctx).Should(BeEmpty())
	}, SpecTimeout(patience))

	It("is cut after some events, which arrive", func(ctx SpecContext) {
		f := inject(faults.Rule{Verb: "watch", Resource: "configmaps", User: name, Times: 2}, faults.Cut(2))
		w := follow(ctx)
		create(ctx, "a")
		Expect(event(ctx, w)).To(Equal("ADDED a"))
		create(ctx, "b")
		Expect(event(ctx, w)).To(Equal("ADDED b"))
		Expect(event(ctx, w)).To(Or(Equal("end"), HavePrefix("ERROR")), "without another event")
		Expect(f.Hits()).To(Equal(1))
		create(ctx, "c", "d", "e")
		again := follow(ctx)
		Expect([]string{event(ctx, again), event(ctx, again)}).To(ConsistOf(HavePrefix("ADDED"), HavePrefix("ADDED")))
		Expect(event(ctx, again)).To(Or(Equal("end"), HavePrefix("ERROR")))
		Expect(f.Hits()).To(Equal(2))
		again = follow(ctx)
		for range 5 {
			Expect(event(ctx, again)).To(HavePrefix("ADDED"))
		}
	}, SpecTimeout(patience))

	It("that is open is cut at once, and the first one first", func(ctx SpecContext) {
		w, second := follow(ctx), follow(ctx)
		create(ctx, "a")
		Expect(event(ctx, w)).To(Equal("ADDED a"))
		Expect(event(ctx, second)).To(Equal("ADDED a"))
		f := inject(faults.Rule{Verb: "watch", Resource: "configmaps", User: name, Times: 1}, faults.Cut(0))
		Expect(event(ctx, w)).To(Or(Equal("end"), HavePrefix("ERROR")))
		Expect(f.Hits()).To(Equal(1))
		create(ctx, "b")
		Expect(event(ctx, second)).To(Equal("ADDED b"))
		Expect(event(ctx, follow(ctx))).To(Equal("ADDED a"))
	}, SpecTimeout(patience))

	It("is held without its bookmarks, unless the rule names them", func(ctx SpecContext) {
		h := hold(faults.Rule{})
		w, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{
			SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		Expect(event(ctx, w)).To(HavePrefix("BOOKMARK"))
		Expect(h.Held()).To(BeEmpty())
		all := hold(faults.Rule{Type: "*"})
		again, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{
			SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		Expect(err).NotTo(HaveOccurred())
		defer again.Stop()
		Expect(all.Wait(ctx, 1)).To(Succeed())
		Expect(all.Held()[0].Type).To(Equal("BOOKMARK"))
	}, SpecTimeout(patience))

	It("that is refused says why, and is no watch for the rules", func(ctx SpecContext) {
		f := inject(faults.Rule{Verb: "watch", Resource: "configmaps", User: name}, faults.Expire())
		_, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{FieldSelector: "spec.foo=1"})
		Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("spec.foo")))
		Expect(f.Hits()).To(BeZero())
	}, SpecTimeout(patience))

	It("that nobody reads holds up no test", func(ctx SpecContext) {
		w, h := follow(ctx), hold(faults.Rule{User: name})
		large := configMap("")
		large.Data = map[string]string{"text": strings.Repeat("x", 900<<10)}
		for i := range 16 {
			large.Name = fmt.Sprint("large", i)
			_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, large, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(h.Wait(ctx, 16)).To(Succeed())
		h.End()
		inject(faults.Rule{Verb: "watch", Resource: "secrets"}, faults.Cut(0))
		inject(faults.Rule{Verb: "watch", Resource: "configmaps", User: name}, faults.Expire())
		Eventually(func() string { return event(ctx, w) }).WithContext(ctx).Should(Or(Equal("end"), HavePrefix("ERROR")))
		Expect(client.CoreV1().ConfigMaps(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	}, SpecTimeout(2*long))

	It("learns that its resourceVersion is too old", func(ctx SpecContext) {
		w := follow(ctx)
		create(ctx, "a")
		Expect(event(ctx, w)).To(Equal("ADDED a"))
		for range 20 { // each hits the watch that is open, and none that has ended
			inject(faults.Rule{Verb: "watch", Resource: "configmaps", Namespace: ns, User: name, Times: 1}, faults.Expire())
			Expect(event(ctx, w)).To(ContainSubstring("too old resource version"))
			w = follow(ctx)
			Expect(event(ctx, w)).To(Equal("ADDED a"))
		}
		inject(faults.Rule{Verb: "watch", Resource: "configmaps", Namespace: ns, User: name, Times: 2}, faults.Expire())
		Expect(event(ctx, w)).To(ContainSubstring("too old resource version"))
		Expect(event(ctx, w)).To(Equal("end"))
		w = follow(ctx)
		Expect(event(ctx, w)).To(ContainSubstring("too old resource version"))
		Expect(event(ctx, w)).To(Equal("end"))
		Expect(event(ctx, follow(ctx))).To(Equal("ADDED a"))
	}, SpecTimeout(patience))

	It("is refused", func(ctx SpecContext) {
		inject(faults.Rule{Verb: "watch", Resource: "configmaps", Times: 1}, faults.Respond(apierrors.NewResourceExpired("gone")))
		_, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
		Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
}

var _ = Describe("a watch of other forms", func() {
	It("is held by the names of objects, too", func(ctx SpecContext) {
		ns, config := namespace(ctx), env.Config()
		h, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "configmaps", Name: "a", Times: 2})
		Expect(err).NotTo(HaveOccurred())
		resource := corev1.SchemeGroupVersion.WithResource("configmaps")
		of := map[string]watch.Interface{}
		of["metadata"], err = metadata.NewForConfigOrDie(config).Resource(resource).Namespace(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		of["content"], err = dynamic.NewForConfigOrDie(config).Resource(resource).Namespace(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = user("one", runtime.ContentTypeJSON).CoreV1().ConfigMaps(ns).Create(ctx, configMap("a"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(h.Wait(ctx, len(of))).To(Succeed())
		h.End()
		for form, w := range of {
			Expect(event(ctx, w)).To(Equal("ADDED a"), form)
			w.Stop()
		}
	}, SpecTimeout(patience))

	It("is cut when more is held than fits", func(ctx SpecContext) {
		for _, name := range []string{"", "a"} { // what is held, and what waits behind it
			ns, own := namespace(ctx), faults.NewHolding(2000)
			live, cancel := context.WithCancel(ctx)
			config, err := own.NewProxy(live, env.Config())
			Expect(err).NotTo(HaveOccurred())
			client := clientOf(config, runtime.ContentTypeProtobuf)
			h, err := own.Hold(faults.Rule{Verb: "watch", Resource: "configmaps", Name: name})
			Expect(err).NotTo(HaveOccurred())
			w, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for i := range 5 {
				large := configMap(string(rune('a' + i)))
				large.Data = map[string]string{"text": strings.Repeat("x", 500)}
				_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, large, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(event(ctx, w)).To(Or(Equal("end"), HavePrefix("ERROR")))
			Eventually(h.Held).WithContext(ctx).Should(BeEmpty())
			w.Stop()
			cancel()
		}
	}, SpecTimeout(patience))
})
