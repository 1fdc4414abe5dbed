// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// backend is an API server behind an APIService: it serves the guests of a group, and has one guest.
type backend struct {
	*guest
	*httptest.Server
	namespace string // of the guest, and of the Service
	services  client.Client
	down      atomic.Bool // it answers 503
	listOnly  atomic.Bool // guests cannot be watched
}

func newBackend(namespace string) *backend {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(apiregistrationv1.AddToScheme(scheme)).To(Succeed())
	services, err := client.New(cfg, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	b := &backend{guest: newGuest(), namespace: namespace, services: services}
	b.Server = httptest.NewTLSServer(http.HandlerFunc(b.serve))
	DeferCleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	object := b.object(b.namespace, "alice")
	object.SetResourceVersion("7")
	object.SetUID("alice")
	answer, code := any(nil), http.StatusOK
	verbs := metav1.Verbs{"get", "list", "watch"}
	if b.listOnly.Load() {
		verbs = verbs[:2]
	}
	switch query := r.URL.Query(); {
	case b.down.Load():
		code, answer = http.StatusServiceUnavailable, apierrors.NewServiceUnavailable("the backend is down").Status()
	case !strings.HasSuffix(r.URL.Path, "/guests"):
		answer = metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: b.group + "/v1",
			APIResources: []metav1.APIResource{{Name: "guests", SingularName: "guest", Namespaced: true, Kind: "Guest", Verbs: verbs}},
		}
	case b.listOnly.Load() && query.Get("watch") != "":
		code, answer = http.StatusMethodNotAllowed, apierrors.NewMethodNotSupported(schema.GroupResource{Group: b.group, Resource: "guests"}, "watch").Status()
	case query.Get("sendInitialEvents") != "":
		code, answer = http.StatusUnprocessableEntity, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
	case query.Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	default:
		answer = map[string]any{"apiVersion": b.group + "/v1", "kind": "GuestList", "metadata": map[string]any{"resourceVersion": "7"}, "items": []any{object.Object}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (b *backend) service() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + b.group}}
}

// register creates the Service and the APIService.
func (b *backend) register(ctx context.Context) {
	GinkgoHelper()
	at, err := url.Parse(b.URL)
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.ParseInt(at.Port(), 10, 32)
	Expect(err).NotTo(HaveOccurred())
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "backend"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	Expect(client.IgnoreAlreadyExists(api.Create(ctx, service))).To(Succeed())
	registration := b.service()
	registration.Spec = apiregistrationv1.APIServiceSpec{
		Group: b.group, Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: b.namespace, Name: "backend", Port: ptr.To(int32(port))},
	}
	Expect(b.services.Create(ctx, registration)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(b.services.Delete(ctx, b.service()))).To(Succeed())
	})
}

// becomes returns when the condition Available of the APIService is there. It changes the Service, so that the
// API server looks again at once, and not after half a minute.
func (b *backend) becomes(ctx context.Context, available apiregistrationv1.ConditionStatus) {
	GinkgoHelper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "backend"}}
	Eventually(func(g Gomega) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"at":%q}}}`, time.Now())
		g.Expect(api.Patch(ctx, service, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
		s := b.service()
		g.Expect(b.services.Get(ctx, client.ObjectKeyFromObject(s), s)).To(Succeed())
		g.Expect(s.Status.Conditions).To(ContainElement(And(HaveField("Type", apiregistrationv1.Available), HaveField("Status", available))))
	}).WithContext(ctx).Should(Succeed())
}

// asking returns options whose requests for a group are counted. Their RESTMapper has seen the other groups.
func asking(ctx context.Context, group string) (opts cache.Options, asked *atomic.Int64) {
	GinkgoHelper()
	return askingOn(cfg, group)
}

// askingOn is asking for a cache with a config of its own.
func askingOn(its *rest.Config, group string) (opts cache.Options, asked *atomic.Int64) {
	GinkgoHelper()
	transport, err := rest.TransportFor(its)
	Expect(err).NotTo(HaveOccurred())
	asked = &atomic.Int64{}
	opts.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, group) {
			asked.Add(1)
		}
		return transport.RoundTrip(r)
	})}
	opts.Mapper, err = apiutil.NewDynamicRESTMapper(its, opts.HTTPClient)
	Expect(err).NotTo(HaveOccurred())
	_, err = opts.Mapper.RESTMapping(configMapKind.GroupKind(), configMapKind.Version)
	Expect(err).NotTo(HaveOccurred())
	return opts, asked
}

// quietFor returns a function that returns how many requests there are in six seconds: looks at discovery follow
// each other at intervals that double, the last one after five seconds.
func quietFor(asked *atomic.Int64) func() int64 {
	return func() int64 {
		before := asked.Load()
		time.Sleep(6 * time.Second)
		return asked.Load() - before
	}
}

// phaseOf returns where the informer of guests is.
func phaseOf(c cache.Cache, kind string) (inspected.Phase, error) {
	is := stateOf(c, kind)
	return is.Phase, is.Err
}

func stateOf(c cache.Cache, kind string) inspected.State {
	for _, entry := range c.(inspected.Cache[*informers.MapEntry]).Informers() {
		if entry.Key().Group == kind {
			return entry.Inspected().State()
		}
	}
	return inspected.State{}
}

var _ = Describe("An optional kind of an APIService", func() {
	It("is dormant while there is none or its server is away, is cached when it is there, and goes with it", func(ctx SpecContext) {
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		said := func(what string) int { return strings.Count(string(log.Contents()), what) }
		b := newBackend(newNamespace(ctx))
		key := client.ObjectKey{Namespace: b.namespace, Name: "alice"}
		opts, asked := asking(ctx, b.group)
		c := started(ctx, cache.With(optionalKinds), opts)
		informer, err := c.GetInformer(ctx, b.object("", ""))
		Expect(err).NotTo(HaveOccurred())
		events := make(chan string, 20)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { events <- "add" }, DeleteFunc: func(any) { events <- "delete" },
		})
		Expect(err).NotTo(HaveOccurred())
		read := func() error { return c.Get(ctx, key, b.object("", "")) }
		Expect(reasonOf(read()).Cause).To(Equal(cache.NotServed))

		By("registering it while its server is down")
		b.down.Store(true)
		b.register(ctx)
		b.becomes(ctx, apiregistrationv1.ConditionFalse)
		Eventually(func() cache.Cause { return reasonOf(read()).Cause }).Should(Equal(cache.Unavailable))
		err = read()
		Expect(meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(ContainSubstring("APIService v1." + b.group))
		phase, why := phaseOf(c, b.group)
		Expect(phase).To(Equal(inspected.Dormant))
		Expect(why).To(MatchError(err.Error()))
		Expect(cache.Ready(c)(nil)).To(Succeed())
		late, _ := asking(ctx, b.group) // a program that starts now, and whose RESTMapper gets a 503
		second := started(ctx, cache.With(optionalKinds), late)
		_, err = second.GetInformer(ctx, b.object("", ""))
		Expect(err).NotTo(HaveOccurred())
		Expect(reasonOf(second.Get(ctx, key, b.object("", ""))).Cause).To(Equal(cache.Unavailable))
		Expect(second.WaitForCacheSync(ctx)).To(BeTrue())

		By("starting its server")
		b.down.Store(false)
		b.becomes(ctx, apiregistrationv1.ConditionTrue)
		Eventually(events).Should(Receive(Equal("add")))
		Eventually(read).Should(Succeed())
		Eventually(func() error { return second.Get(ctx, key, b.object("", "")) }).Should(Succeed())
		Expect(said("it is cached from now on")).To(Equal(2), "once in each cache")

		By("stopping its server")
		b.down.Store(true)
		b.CloseClientConnections()
		b.becomes(ctx, apiregistrationv1.ConditionFalse)
		Eventually(func(g Gomega) {
			is := stateOf(c, b.group)
			g.Expect(is.Phase).To(Equal(inspected.Interrupted))
			g.Expect(is.Cause).To(BeEquivalentTo(cache.Unavailable), "%v", is.Err)
		}).Should(Succeed())
		Expect(read()).To(Succeed(), "nobody has deleted it")
		Consistently(events).ShouldNot(Receive())

		By("taking it away")
		Expect(b.services.Delete(ctx, b.service())).To(Succeed())
		Eventually(events).Should(Receive(Equal("delete")))
		Eventually(func() cache.Cause { return reasonOf(read()).Cause }).Should(Equal(cache.NotServed))
		Eventually(quietFor(asked)).WithTimeout(2 * patience).Should(BeZero())
		lines, before := said(b.group), asked.Load()
		Consistently(asked.Load, 3*time.Second).Should(Equal(before), "nobody asks for a kind that is not served")
		Expect(said(b.group)).To(Equal(lines))
		Expect(said("is not served any more")).To(Equal(2), "once in each cache")

		By("registering it again")
		b.down.Store(false)
		b.register(ctx)
		b.becomes(ctx, apiregistrationv1.ConditionTrue)
		Eventually(events).Should(Receive(Equal("add")))
		Eventually(func() error { return second.Get(ctx, key, b.object("", "")) }).Should(Succeed())
		Expect(said("it is cached from now on")).To(Equal(4))
		Expect(said("cannot be served now")).To(BeZero(), "it was dormant anyway")
	})

	It("is away without an effect on other groups", func(ctx SpecContext) {
		b, g := newBackend(newNamespace(ctx)), newGuest()
		create(ctx, configMap(b.namespace, "one", "x"))
		g.come(ctx, apiextensionsv1.NamespaceScoped)
		DeferCleanup(g.leave)
		g.send(ctx, b.namespace, "bob")
		opts, _ := asking(ctx, b.group)
		c := started(ctx, cache.With(optionalKinds), opts)
		for _, obj := range []client.Object{b.object("", ""), g.object("", ""), &corev1.ConfigMap{}} {
			_, err := c.GetInformer(ctx, obj)
			Expect(err).NotTo(HaveOccurred())
		}
		b.down.Store(true)
		b.register(ctx)
		b.becomes(ctx, apiregistrationv1.ConditionFalse)
		Eventually(func() cache.Cause { return reasonOf(c.Get(ctx, client.ObjectKey{Name: "x"}, b.object("", ""))).Cause }).Should(Equal(cache.Unavailable))
		other := newGuest()
		_, err := c.GetInformer(ctx, other.object("", ""))
		Expect(err).NotTo(HaveOccurred())
		other.come(ctx, apiextensionsv1.NamespaceScoped)
		DeferCleanup(other.leave)
		other.send(ctx, b.namespace, "carol")
		Eventually(func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: "carol"}, other.object("", ""))
		}).Should(Succeed())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: "bob"}, g.object("", ""))).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: "one"}, &corev1.ConfigMap{})).To(Succeed())
		for _, group := range []string{g.group, other.group, ""} {
			Expect(phaseOf(c, group)).To(Equal(inspected.Synced), group)
		}
	})
})
