// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
)

var _ = Describe("the clock", func() {
	refused := func(err error) bool { return apierrors.IsUnauthorized(err) }

	It("lets a token expire on command", func(ctx SpecContext) {
		ns, admin := namespace(ctx), user("admin", "application/json")
		_, err := admin.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		token, err := admin.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "robot",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		config := rest.AnonymousClientConfig(env.Config())
		config.BearerToken = token.Status.Token
		robot := clientOf(config, "application/json")
		ask := func() error {
			_, err := robot.Discovery().ServerVersion()
			return err
		}
		Expect(ask()).To(Succeed())
		late := inject(faults.Rule{Station: faults.Clock}, faults.Shift(time.Hour))
		Expect(ask()).To(Satisfy(refused))
		Expect(late.Wait(ctx, 1)).To(Succeed())
		late.End()
		Expect(ask()).To(Succeed())
		inject(faults.Rule{Station: faults.Clock, Times: 1}, faults.Shift(-time.Hour))
		Expect(ask()).To(Satisfy(refused), "it is not valid yet")
		Expect(ask()).To(Succeed())
	}, SpecTimeout(patience))

	It("lets a client certificate expire on command", func(ctx SpecContext) {
		config, err := env.AddUser("holder", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		config.BearerToken = ""
		holder := clientOf(config, "application/json")
		ask := func() error {
			_, err := holder.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			return err
		}
		Expect(ask()).To(Succeed())
		late := inject(faults.Rule{Station: faults.Clock}, faults.Shift(2*365*24*time.Hour))
		Expect(ask()).To(Satisfy(refused))
		Expect(late.Hits()).To(BeNumerically(">=", 1))
		late.End()
		Expect(ask()).To(Succeed())
	}, SpecTimeout(patience))
})

// hook is a webhook that admits all, and knows its connections.
type hook struct {
	*httptest.Server
	calls atomic.Int64

	mu   sync.Mutex
	open map[net.Conn]bool // guarded by mu
}

func newHook() *hook {
	h := &hook{open: map[net.Conn]bool{}}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h.calls.Add(1)
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	h.Config.ConnState = func(c net.Conn, state http.ConnState) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.open[c] = state != http.StateClosed; !h.open[c] {
			delete(h.open, c)
		}
	}
	h.StartTLS()
	DeferCleanup(h.Close)
	return h
}

func (h *hook) connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// install has the server call the hook for ConfigMaps with the label that create sets, and returns when it does.
func (h *hook) install(ctx context.Context, client kubernetes.Interface, name, path string) {
	GinkgoHelper()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](1),
			SideEffects:    ptr.To(admissionregistrationv1.SideEffectClassNone),
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"hooked": name}},
			ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: ptr.To(h.URL + path), CABundle: bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_ = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}) // its server may have stopped
	})
	Eventually(ctx, func() int64 {
		_ = hooked(ctx, client, "default", name, true) // also a busy machine's time-out is an answer
		return h.calls.Load()
	}).WithTimeout(patience).Should(BeNumerically(">", 0))
}

// hooked creates a ConfigMap that the hook is asked about.
func hooked(ctx context.Context, client kubernetes.Interface, ns, name string, dry bool) error {
	options := metav1.CreateOptions{}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "hooked-", Labels: map[string]string{"hooked": name}}}
	_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, object, options)
	return err
}

var _ = Describe("a webhook", func() {
	It("is late, fails, or is not reached", func(ctx SpecContext) {
		ns, client, h := namespace(ctx), user("admin", "application/json"), newHook()
		h.install(ctx, client, "late", "/late")
		create := func() error { return hooked(ctx, client, ns, "late", false) }
		rule := faults.Rule{Station: faults.Webhook, Path: "/late"}
		before := h.calls.Load()

		elsewhere := inject(faults.Rule{Station: faults.Webhook, Path: "/other"}, faults.Respond(errors.New("elsewhere")))
		failing := inject(rule, faults.Respond(apierrors.NewServiceUnavailable("the webhook is being moved")))
		Expect(create()).To(MatchError(And(ContainSubstring("failed calling webhook"), ContainSubstring("the webhook is being moved"))))
		Expect(failing.Hits()).To(Equal(1))
		failing.End()
		cut := inject(rule, faults.DropRequest())
		Expect(create()).To(MatchError(And(ContainSubstring("failed calling webhook"), ContainSubstring("connection reset"))))
		cut.End()
		late := inject(rule, faults.Delay(time.Hour))
		Expect(create()).To(MatchError(And(ContainSubstring("failed calling webhook"), ContainSubstring("context deadline exceeded"))))
		Expect(late.Hits()).To(Equal(1))
		late.End()
		Expect(h.calls.Load()).To(Equal(before), "it has not seen what was to come")
		Eventually(ctx, create).WithTimeout(patience).Should(Succeed())
		Expect(h.calls.Load()).To(BeNumerically(">", before))
		Expect(elsewhere.Hits()).To(BeZero())
	}, SpecTimeout(long))

	It("has no connection left when the environment has stopped", func(ctx SpecContext) {
		other := envtest.New(envtest.Options{})
		Expect(other.Start(ctx)).To(Succeed())
		DeferCleanup(other.Stop)
		h := newHook()
		h.install(ctx, clientOf(other.Config(), "application/json"), "left", "/left")
		Expect(h.connections()).To(BeNumerically(">", 0))
		Expect(other.Stop()).To(Succeed())
		Eventually(ctx, h.connections).WithTimeout(patience).Should(BeZero())
	}, SpecTimeout(long))
})

var _ = Describe("the etcd of an environment", func() {
	health := func(ctx context.Context, client kubernetes.Interface, path string) error {
		return client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error()
	}

	It("stops and starts, and watches go on", func(ctx SpecContext) {
		ns, client := namespace(ctx), user("admin", "application/json")
		create := func(name string) error {
			_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, configMap(name), metav1.CreateOptions{})
			return err
		}
		w, err := client.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		Expect(create("before")).To(Succeed())
		Expect(event(ctx, w)).To(Equal("ADDED before"))

		Expect(env.StopEtcd(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.StartEtcd(ctx)).To(Succeed()) })
		Expect(env.StopEtcd(ctx)).To(Succeed(), "it is stopped already")
		Expect(create("meanwhile")).To(MatchError(ContainSubstring("etcd was stopped by the test")))
		_, err = client.CoreV1().ConfigMaps(ns).Get(ctx, "before", metav1.GetOptions{})
		Expect(err).To(MatchError(ContainSubstring("etcd was stopped by the test")))
		for _, path := range []string{"/readyz", "/livez", "/healthz"} {
			Expect(health(ctx, client, path)).NotTo(Succeed(), path)
		}
		Expect(env.CompactEtcd(ctx, 0)).To(MatchError(ContainSubstring("etcd was stopped by the test")))
		Expect(env.Reset(ctx)).To(MatchError(ContainSubstring("etcd was stopped by the test")))

		Expect(env.StartEtcd(ctx)).To(Succeed())
		Expect(create("after")).To(Succeed())
		Expect(event(ctx, w)).To(Equal("ADDED after"))
		_, err = client.CoreV1().ConfigMaps(ns).Get(ctx, "before", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, path := range []string{"/readyz", "/livez", "/healthz"} {
			Expect(health(ctx, client, path)).To(Succeed(), path)
		}
	}, SpecTimeout(long))

	It("forgets what was compacted", func(ctx SpecContext) {
		other := envtest.New(envtest.Options{StorageDecorator: envtest.Undecorated})
		Expect(other.Start(ctx)).To(Succeed())
		DeferCleanup(other.Stop)
		maps := clientOf(other.Config(), "application/json").CoreV1().ConfigMaps("default")
		old, err := maps.Create(ctx, configMap("a"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		list := func() error {
			_, err := maps.List(ctx, metav1.ListOptions{ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			return err
		}
		_, err = maps.Create(ctx, configMap("b"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list()).To(Succeed())
		Expect(other.CompactEtcd(ctx, 0)).To(Succeed())
		Expect(list()).To(Satisfy(apierrors.IsResourceExpired))
		revision, err := strconv.ParseInt(old.ResourceVersion, 10, 64)
		Expect(err).NotTo(HaveOccurred())
		Expect(other.CompactEtcd(ctx, revision)).To(MatchError(ContainSubstring("compacted")))
		Expect(other.CompactEtcd(ctx, revision+1000)).To(MatchError(ContainSubstring("future")))

		Expect(other.StopEtcd(ctx)).To(Succeed())
		Expect(other.Stop()).To(Succeed(), "a stopped etcd is no obstacle")
		Expect(other.StartEtcd(ctx)).To(MatchError(envtest.ErrNotRunning))
	}, SpecTimeout(long))
})
