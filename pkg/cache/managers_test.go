// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// syncTimeout is how long a controller of a program waits for its kind.
const syncTimeout = 5 * time.Second

// program is a manager of a user who may read ConfigMaps and nothing else, with a controller of them.
type program struct {
	manager.Manager
	user       string
	reconciled chan string // ConfigMaps called one
	stop       context.CancelFunc
	ended      chan error
}

func newProgram(ctx context.Context, newCache cache.NewCacheFunc) *program {
	GinkgoHelper()
	name, its := newUser()
	apply(ctx, (&cache.NotSyncedError{Cause: cache.Forbidden, Resource: corev1.SchemeGroupVersion.WithResource("configmaps")}).Manifest(), name)
	mgr, err := ctrl.NewManager(its, ctrl.Options{
		NewCache: newCache, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{CacheSyncTimeout: syncTimeout},
	})
	Expect(err).NotTo(HaveOccurred())
	// A server learns of a role by a watch. A first list that came before would be tried again after syncTimeout.
	Eventually(func() error { return mgr.GetAPIReader().List(ctx, &corev1.ConfigMapList{}) }).Should(Succeed())
	p := &program{Manager: mgr, user: name, reconciled: make(chan string, 1), ended: make(chan error, 1)}
	p.control(&corev1.ConfigMap{}, "one", p.reconciled)
	return p
}

// control adds a controller that sends the name once it has reconciled an object of it. ConfigMaps may be read, so nothing but a busy
// machine keeps their controller waiting, and it has longer than syncTimeout.
func (p *program) control(obj client.Object, name string, to chan string) {
	GinkgoHelper()
	options := controller.Options{SkipNameValidation: ptr.To(true)}
	if _, ok := obj.(*corev1.ConfigMap); ok {
		options.CacheSyncTimeout = patience
	}
	Expect(ctrl.NewControllerManagedBy(p).For(obj).WithOptions(options).
		Complete(reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
			if r.Name == name {
				select {
				case to <- name:
				default:
				}
			}
			return ctrl.Result{}, nil
		}))).To(Succeed())
}

// run starts the program.
func (p *program) run() {
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.ended <- p.Start(ctx)
	}()
	DeferCleanup(func() {
		p.stop()
		Eventually(over, time.Minute).Should(BeClosed())
	})
}

// hasReconciled waits until the controller of ConfigMaps has reconciled one.
func (p *program) hasReconciled(ctx context.Context) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-p.reconciled:
	case err := <-p.ended:
		Fail(fmt.Sprintf("the program has ended: %v", err))
	case <-ctx.Done():
		Fail("the program has reconciled nothing")
	}
}

// indexNodes declares an index of Nodes, which the user may not read.
func (p *program) indexNodes(ctx context.Context) {
	GinkgoHelper()
	Expect(p.GetFieldIndexer().IndexField(ctx, &corev1.Node{}, "spec.podCIDR", func(obj client.Object) []string {
		return []string{obj.(*corev1.Node).Spec.PodCIDR}
	})).To(Succeed())
}

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// mayReadNodes gives the user the right to read Nodes.
func (p *program) mayReadNodes(ctx context.Context) {
	GinkgoHelper()
	apply(ctx, (&cache.NotSyncedError{Cause: cache.Forbidden, Resource: nodes}).Manifest(), p.user)
}

var _ = Describe("A manager with a kind that is forbidden", func() {
	BeforeEach(func(ctx SpecContext) { create(ctx, configMap(newNamespace(ctx), "one", "x")) })

	isolating := cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Node{}: {OnFailure: cache.Isolate}}})
	failing := cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Node{}: {OnFailure: cache.FailFast}}})

	It("neither starts nor ends with controller-runtime's cache and a field index", func(ctx SpecContext) {
		p := newProgram(ctx, crcache.New)
		p.indexNodes(ctx)
		p.run()
		Consistently(p.reconciled, time.Second).ShouldNot(Receive())
		p.stop()
		Consistently(p.ended, time.Second).ShouldNot(Receive())
		p.mayReadNodes(ctx) // for the end of the spec
		Eventually(p.ended, time.Minute).Should(Receive())
	})

	DescribeTable("starts the rest and ends with ours", func(ctx SpecContext, newCache cache.NewCacheFunc) {
		p := newProgram(ctx, newCache)
		p.indexNodes(ctx)
		p.run()
		p.hasReconciled(ctx)
		p.stop()
		Eventually(p.ended).Should(Receive(Succeed()))
	},
		Entry("if it waits: nobody has asked for the kind but the index", cache.NewCacheFunc(cache.New)),
		Entry("if it isolates the kind", isolating),
	)

	It("ends with the cause if it fails fast", func(ctx SpecContext) {
		p := newProgram(ctx, failing)
		p.indexNodes(ctx)
		p.run()
		var err error
		Eventually(p.ended).Should(Receive(&err))
		reason := reasonOf(err)
		Expect(reason.Cause).To(Equal(cache.Forbidden))
		Expect(reason.Resource).To(Equal(nodes))
	})

	It("ends a cache that fails fast while another kind has not answered yet", func(ctx SpecContext) {
		_, its := newUser()
		transport, err := rest.TransportFor(its)
		Expect(err).NotTo(HaveOccurred())
		asked := make(chan struct{}, 1)
		c, err := failing(its, cache.Options{HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/configmaps") {
				asked <- struct{}{}
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return transport.RoundTrip(r)
		})}})
		Expect(err).NotTo(HaveOccurred())
		_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		Eventually(asked).Should(Receive())
		_, err = c.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		Eventually(ended).Should(Receive(&err))
		Expect(reasonOf(err).Cause).To(Equal(cache.Forbidden))
	})

	for name, newCache := range map[string]cache.NewCacheFunc{"controller-runtime's": crcache.New, "ours": cache.New} {
		It("ends after CacheSyncTimeout if a controller waits for the kind, with "+name, func(ctx SpecContext) {
			p := newProgram(ctx, newCache)
			p.control(&corev1.Node{}, "", nil)
			p.run()
			Eventually(p.ended).Should(Receive(MatchError(ContainSubstring("timed out waiting for cache to be synced for kind source"))))
		})
	}

	It("stops no other controller if it isolates the kind, and goes on with it when it may", func(ctx SpecContext) {
		p := newProgram(ctx, isolating)
		its := make(chan string, 1)
		p.control(&corev1.Node{}, "node-of-"+p.user, its)
		p.run()
		p.hasReconciled(ctx)
		reason := reasonOf(p.GetClient().List(ctx, &corev1.NodeList{}))
		Expect(reason.Cause).To(Equal(cache.Forbidden))
		Consistently(p.ended, 2*syncTimeout).ShouldNot(Receive())
		p.mayReadNodes(ctx)
		node := &corev1.Node{}
		node.Name = "node-of-" + p.user
		create(ctx, node)
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, node)).To(Succeed()) })
		Eventually(its, 3*patience).Should(Receive(), "the next try may be a minute away")
		// A handler may be told of the first list a moment before reads are answered.
		Eventually(func() error { return p.GetClient().List(ctx, &corev1.NodeList{}) }).Should(Succeed())
		p.stop()
		Eventually(p.ended).Should(Receive(Succeed()))
	})

	It("is waited for by those who ask for it before the start, and WaitForCacheSync tells", func(ctx SpecContext) {
		_, its := newUser()
		short, failed := untilItFails(ctx)
		c := started(ctx, on(cache.New, its), cache.Options{DefaultWatchErrorHandler: failed})
		_, err := c.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		Expect(c.WaitForCacheSync(short)).To(BeFalse())
		Expect(errors.Is(context.Cause(short), context.DeadlineExceeded)).To(BeTrue())
	})
})
