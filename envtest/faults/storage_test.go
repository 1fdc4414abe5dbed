// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// long is how long a spec may take in which a watch cache has to come back.
const long = time.Minute

// uncached says that the server reads from etcd.
func uncached() bool { return os.Getenv("TARN_WATCH_CACHE") == "none" }

// seen returns a function that says which of a namespace's ConfigMaps a cache of a controller has.
func seen(ctx context.Context, ns string) func() []string {
	GinkgoHelper()
	config := env.Config()
	config.UserAgent = "controller"
	reads, err := cache.New(config, cache.Options{})
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reads.Start(running) }()
	DeferCleanup(func() {
		stop()
		Expect(<-ended).To(Succeed())
	})
	names := func() (names []string) {
		var list corev1.ConfigMapList
		if err := reads.List(ctx, &list, client.InNamespace(ns)); err != nil {
			return []string{err.Error()}
		}
		for _, one := range list.Items {
			names = append(names, one.Name)
		}
		return names
	}
	Eventually(ctx, names).WithTimeout(patience).Should(BeEmpty())
	return names
}

var _ = Describe("the storage", func() {
	var (
		ns     string
		client kubernetes.Interface
	)
	create := func(ctx context.Context, name string) error {
		_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, configMap(name), metav1.CreateOptions{})
		return err
	}
	get := func(ctx context.Context, name string) error {
		_, err := client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
		return err
	}
	rule := func(r faults.Rule) faults.Rule {
		r.Station, r.Resource = faults.Storage, "configmaps"
		return r
	}
	BeforeEach(func(ctx SpecContext) {
		ns, client = namespace(ctx), user("writer", "application/json")
	})

	It("returns an error for a key, as often as the rule says", func(ctx SpecContext) {
		fault := inject(rule(faults.Rule{Verb: "create", Group: "core", Namespace: ns, Name: "b", User: "writer", Times: 1}),
			faults.Respond(errors.New("the disk is full")))
		Expect(create(ctx, "a")).To(Succeed())
		err := create(ctx, "b")
		Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("the disk is full")))
		Expect(apierrors.IsNotFound(get(ctx, "b"))).To(BeTrue())
		Expect(create(ctx, "b")).To(Succeed())
		Expect(fault.Hits()).To(Equal(1))
	}, SpecTimeout(patience))

	It("returns an error for each verb", func(ctx SpecContext) {
		Expect(create(ctx, "a")).To(Succeed())
		for verb, do := range map[string]func() error{
			"get": func() error { return get(ctx, "a") },
			"update": func() error {
				_, err := client.CoreV1().ConfigMaps(ns).Patch(ctx, "a", "application/merge-patch+json", []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
				return err
			},
			"delete": func() error { return client.CoreV1().ConfigMaps(ns).Delete(ctx, "a", metav1.DeleteOptions{}) },
		} {
			fault := inject(rule(faults.Rule{Verb: verb, Namespace: ns, Name: "a"}), faults.Respond(conflict))
			err := do()
			Expect(apierrors.IsConflict(err)).To(BeTrue(), "%s: %v", verb, err)
			fault.End()
			Expect(get(ctx, "a")).To(Succeed())
		}
	}, SpecTimeout(patience))

	It("lags until the fault ends", func(ctx SpecContext) {
		fault := inject(rule(faults.Rule{Verb: "create", Namespace: ns}), faults.Delay(time.Hour))
		done := make(chan error, 1)
		go func() { done <- create(ctx, "a") }()
		Expect(fault.Wait(ctx, 1)).To(Succeed())
		Expect(apierrors.IsNotFound(get(ctx, "a"))).To(BeTrue())
		Expect(done).NotTo(Receive())
		fault.End()
		Eventually(ctx, done).Should(Receive(BeNil()))
		Expect(get(ctx, "a")).To(Succeed())
	}, SpecTimeout(patience))

	It("has an object that cannot be decoded", func(ctx SpecContext) {
		Expect(create(ctx, "good")).To(Succeed())
		Expect(create(ctx, "bad")).To(Succeed())
		fault := inject(rule(faults.Rule{Verb: "get", Namespace: ns, Name: "bad"}), faults.Corrupt())
		err := get(ctx, "bad")
		Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
		Expect(fault.Hits()).To(Equal(1))
		Expect(get(ctx, "good")).To(Succeed())
		fault.End()
		Expect(get(ctx, "bad")).To(Succeed(), "nothing is lost")
	}, SpecTimeout(patience))

	It("cannot list while an object is corrupt", func(ctx SpecContext) {
		Expect(create(ctx, "good")).To(Succeed())
		Expect(create(ctx, "bad")).To(Succeed())
		all := func() (int, error) {
			list, err := client.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, err
			}
			return len(list.Items), nil
		}
		Eventually(ctx, all).WithTimeout(patience).Should(Equal(2))
		fault := inject(rule(faults.Rule{Verb: "list", Namespace: ns, Name: "bad"}), faults.Corrupt())
		if !uncached() {
			fault.End()                                                                     // a watch cache has the objects, and reads them when it begins anew
			fault = inject(rule(faults.Rule{Namespace: ns, Name: "bad"}), faults.Corrupt()) // by a list, or a watch with initial events
			inject(rule(faults.Rule{Verb: "watch", Times: 1}), faults.Expire())
			Expect(fault.Wait(ctx, 1)).To(Succeed())
		} else {
			_, err := all()
			Expect(err).To(HaveOccurred())
			Expect(fault.Hits()).To(Equal(1))
		}
		fault.End()
		Eventually(ctx, all).WithTimeout(long).Should(Equal(2))
	}, SpecTimeout(long))

	DescribeTable("ends the watch of a watch cache, which goes on", func(ctx SpecContext, action faults.Action) {
		names := seen(ctx, ns)
		again := inject(rule(faults.Rule{Verb: "watch"}), faults.Delay(0))
		fault := inject(rule(faults.Rule{Verb: "watch", Times: 1}), action)
		Expect(fault.Wait(ctx, 1)).To(Succeed())
		Expect(create(ctx, "a")).To(Succeed())
		Eventually(ctx, names).WithTimeout(long).Should(ConsistOf("a"), "what came later is seen")
		Expect(again.Wait(ctx, 1)).To(Succeed(), "the storage is watched again")
		Expect(fault.Hits()).To(Equal(1))
	},
		Entry("because the history is gone", faults.Expire(), SpecTimeout(long)),
		Entry("because the watch is cut", faults.Cut(0), SpecTimeout(long)),
	)

	DescribeTable("and watches of clients, when the watch of a watch cache ends", func(ctx SpecContext, action faults.Action, goesOn bool) {
		if uncached() {
			Skip("there is no watch cache")
		}
		own := faults.New()
		other := envtest.New(envtest.Options{Faults: own})
		Expect(other.Start(ctx)).To(Succeed())
		DeferCleanup(other.Stop)
		maps := clientOf(other.Config(), "application/json").CoreV1().ConfigMaps("default")
		w, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "followed"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		follow := func(name string) string {
			one := configMap(name)
			one.Labels = map[string]string{"followed": "yes"}
			_, err := maps.Create(ctx, one, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return event(ctx, w)
		}
		Expect(follow("a")).To(Equal("ADDED a"), "and the watch that is cut has had an event")
		fault, err := own.Inject(faults.Rule{Station: faults.Storage, Verb: "watch", Resource: "configmaps", Times: 1}, action)
		Expect(err).NotTo(HaveOccurred())
		Expect(fault.Wait(ctx, 1)).To(Succeed())
		if goesOn {
			Expect(follow("b")).To(Equal("ADDED b"))
		} else {
			Eventually(func() string { return event(ctx, w) }).WithContext(ctx).Should(Equal("end"))
		}
	},
		Entry("go on when it is cut", faults.Cut(0), true, SpecTimeout(2*long)),
		Entry("end when the history is gone", faults.Expire(), false, SpecTimeout(2*long)),
	)

	It("tells a watch of a client that the history is gone, without a watch cache", func(ctx SpecContext) {
		if !uncached() {
			Skip("a watch cache stands between")
		}
		w, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		Expect(create(ctx, "a")).To(Succeed())
		Expect(event(ctx, w)).To(Equal("ADDED a"))
		inject(rule(faults.Rule{Verb: "watch", Namespace: ns}), faults.Expire())
		Expect(event(ctx, w)).To(ContainSubstring("too old resource version"))
	}, SpecTimeout(patience))
})

var _ = Describe("etcd", func() {
	It("fails and lags at the calls that a rule means", func(ctx SpecContext) {
		ns, client := namespace(ctx), user("writer", "application/json")
		create := func(name string) error {
			_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, configMap(name), metav1.CreateOptions{})
			return err
		}
		write := inject(faults.Rule{Station: faults.Etcd, Verb: "txn", Resource: "configmaps", User: "writer", Times: 1}, faults.Respond(errors.New("mvcc: database space exceeded")))
		Expect(create("a")).To(MatchError(ContainSubstring("database space exceeded")))
		Expect(create("a")).To(Succeed())
		Expect(write.Hits()).To(Equal(1))

		read := inject(faults.Rule{Station: faults.Etcd, Verb: "range", Group: "core", Resource: "configmaps", User: "writer"}, faults.Delay(time.Hour))
		got := make(chan error, 1)
		go func() {
			_, err := client.CoreV1().ConfigMaps(ns).Get(ctx, "a", metav1.GetOptions{})
			got <- err
		}()
		Expect(read.Wait(ctx, 1)).To(Succeed())
		Expect(got).NotTo(Receive())
		read.End()
		Eventually(ctx, got).Should(Receive(BeNil()))
	}, SpecTimeout(patience))

	It("gives no lease", func(ctx SpecContext) {
		ns, client := namespace(ctx), user("writer", "application/json")
		lease := inject(faults.Rule{Station: faults.Etcd, Verb: "lease", Resource: "events", Times: 1}, faults.Respond(errors.New("too many leases")))
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: ns}}
		_, err := client.CoreV1().Events(ns).Create(ctx, event, metav1.CreateOptions{})
		if lease.Hits() == 0 {
			Skip("this server keeps events without a lease")
		}
		Expect(err).To(MatchError(ContainSubstring("too many leases")))
		_, err = client.CoreV1().Events(ns).Create(ctx, event, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("lets no watch begin", func(ctx SpecContext) {
		ns := namespace(ctx)
		names := seen(ctx, ns)
		begin := inject(faults.Rule{Station: faults.Etcd, Verb: "watch", Resource: "configmaps", Times: 2}, faults.Respond(errors.New("no stream")))
		inject(faults.Rule{Station: faults.Storage, Verb: "watch", Resource: "configmaps", Times: 1}, faults.Cut(0))
		Expect(begin.Wait(ctx, 2)).To(Succeed())
		_, err := user("writer", "application/json").CoreV1().ConfigMaps(ns).Create(ctx, configMap("a"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, names).WithTimeout(long).Should(ConsistOf("a"))
	}, SpecTimeout(long))
})
