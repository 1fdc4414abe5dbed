// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest"
)

// serveWebhook refuses objects with the label deny, and labels all others.
func serveWebhook() *httptest.Server {
	GinkgoHelper()
	return serveReviews(func(path string, request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) error {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(request.Object.Raw, &object); err != nil {
			return err
		}
		switch {
		case object.Labels["deny"] != "":
			answer.Allowed, answer.Result = false, &metav1.Status{Message: "the webhook says no"}
		case path == "/mutate":
			answer.Patch = []byte(`[{"op":"add","path":"/metadata/labels/mutated","value":"yes"}]`)
		}
		return nil
	})
}

// serveReviews answers admission reviews: decide changes an answer that allows the request, and may give it a JSON patch. The
// server's certificate is for the loopback address and for the Service default/hook.
func serveReviews(decide func(path string, request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) error) *httptest.Server {
	GinkgoHelper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if err := decide(req.URL.Path, review.Request, answer); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if answer.Patch != nil {
			answer.PatchType = ptr.To(admissionv1.PatchTypeJSONPatch)
		}
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer})
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{webhookCertificate()}}
	server.StartTLS()
	DeferCleanup(server.Close)
	return server
}

// webhookCertificate is that of serveReviews.
func webhookCertificate() tls.Certificate { return certificateFor("hook.default.svc") }

// certificateFor makes a self-signed certificate for a DNS name and the loopback address.
func certificateFor(name string) tls.Certificate {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// authority returns the certificate that clients of a test server have to trust.
func authority(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// createdConfigMaps are the rules of webhooks and policies here.
var createdConfigMaps = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
}

// inNamespace selects one namespace.
func inNamespace(ns string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}}
}

// registerValidating registers a webhook for the creation of ConfigMaps in a namespace, or of what others say.
func registerValidating(ctx context.Context, kube kubernetes.Interface, name, ns string, config admissionregistrationv1.WebhookClientConfig,
	others ...admissionregistrationv1.Rule) {
	GinkgoHelper()
	created := createdConfigMaps
	for _, rule := range others {
		created.Rule = rule
	}
	configurations := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.tarn.example.com", ClientConfig: config, Rules: []admissionregistrationv1.RuleWithOperations{created},
			NamespaceSelector: inNamespace(ns), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { _ = configurations.Delete(ctx, name, metav1.DeleteOptions{}) })
}

// dryCreate tries a ConfigMap with one more label than it has anyway.
func dryCreate(ctx context.Context, kube kubernetes.Interface, ns, label string) (map[string]string, error) {
	cm := configMap("one", "1")
	cm.Labels[label] = "yes"
	made, err := kube.CoreV1().ConfigMaps(ns).Create(ctx, cm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return made.GetLabels(), err
}

var _ = Describe("admission", func() {
	It("asks validating webhooks", func(ctx SpecContext) {
		ns, server := newNamespace(ctx), serveWebhook()
		registerValidating(ctx, target.kube, "tarn-validating", ns, admissionregistrationv1.WebhookClientConfig{
			URL: ptr.To(server.URL + "/validate"), CABundle: authority(server),
		})
		Eventually(func() error {
			_, err := dryCreate(ctx, target.kube, ns, "deny")
			return err
		}).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring("the webhook says no")))
		_, err := dryCreate(ctx, target.kube, ns, "allow")
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	for _, form := range []struct{ hook, request, want string }{
		{"", "events.k8s.io", `asked about /v1 of events.k8s.io/v1: the message is "a note"`},
		{"events.k8s.io", "", `asked about events.k8s.io/v1 of /v1: the note is "a message"`},
	} {
		It(fmt.Sprintf("asks webhooks for events of %q about those of %q, in their form", form.hook, form.request), func(ctx SpecContext) {
			ns, name := newNamespace(ctx), "tarn-events-of"+form.hook
			server := serveReviews(func(_ string, request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) error {
				var event struct{ Message, Note string }
				if err := json.Unmarshal(request.Object.Raw, &event); err != nil {
					return err
				}
				said := fmt.Sprintf("the message is %q", event.Message)
				if event.Note != "" {
					said = fmt.Sprintf("the note is %q", event.Note)
				}
				answer.Allowed = false
				answer.Result = &metav1.Status{Message: fmt.Sprintf("asked about %s/%s of %s/%s: %s",
					request.Kind.Group, request.Kind.Version, request.RequestKind.Group, request.RequestKind.Version, said)}
				return nil
			})
			events := admissionregistrationv1.Rule{APIGroups: []string{form.hook}, APIVersions: []string{"v1"}, Resources: []string{"events"}}
			registerValidating(ctx, target.kube, name, ns, admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: authority(server)}, events)
			Eventually(func() (err error) {
				dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
				meta := metav1.ObjectMeta{Name: "one", Namespace: ns}
				if form.request == "" {
					_, err = target.kube.CoreV1().Events(ns).Create(ctx, &corev1.Event{
						ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Namespace: ns}, Message: "a message",
					}, dry)
					return err
				}
				_, err = target.kube.EventsV1().Events(ns).Create(ctx, &eventsv1.Event{
					ObjectMeta: meta, Regarding: corev1.ObjectReference{Namespace: ns}, Note: "a note", EventTime: metav1.NowMicro(), Type: "Normal",
					Action: "Testing", Reason: "Tested", ReportingController: "tarn.example.com/test", ReportingInstance: "a",
				}, dry)
				return err
			}).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring(form.want)))
		}, SpecTimeout(patience))
	}

	It("lets mutating webhooks change objects", func(ctx SpecContext) {
		ns, server := newNamespace(ctx), serveWebhook()
		configurations := target.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
		_, err := configurations.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "tarn-mutating"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "mutate.tarn.example.com", Rules: []admissionregistrationv1.RuleWithOperations{createdConfigMaps},
				ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL + "/mutate"), CABundle: authority(server)},
				NamespaceSelector: inNamespace(ns), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(configurations.Delete(ctx, "tarn-mutating", metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(func() map[string]string {
			labels, _ := dryCreate(ctx, target.kube, ns, "any")
			return labels
		}).WithContext(ctx).WithPolling(fast).Should(HaveKeyWithValue("mutated", "yes"))
	}, SpecTimeout(patience))

	It("obeys validating policies", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		policies := target.kube.AdmissionregistrationV1()
		_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "tarn-policy"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: inNamespace(ns),
					ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: createdConfigMaps}},
				},
				Validations: []admissionregistrationv1.Validation{{
					Expression: "!has(object.metadata.labels) || !('deny' in object.metadata.labels)", Message: "the policy says no",
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "tarn-binding"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "tarn-policy", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(policies.ValidatingAdmissionPolicyBindings().Delete(ctx, "tarn-binding", metav1.DeleteOptions{})).To(Succeed())
			Expect(policies.ValidatingAdmissionPolicies().Delete(ctx, "tarn-policy", metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(func() error {
			_, err := dryCreate(ctx, target.kube, ns, "deny")
			return err
		}).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring("the policy says no")))
		_, err = dryCreate(ctx, target.kube, ns, "allow")
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("obeys mutating policies", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		policies := target.kube.AdmissionregistrationV1()
		_, err := policies.MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "tarn-mutation"},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: inNamespace(ns),
					ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: createdConfigMaps}},
				},
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
						Expression: "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}}",
					},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = policies.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "tarn-mutation"},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "tarn-mutation"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(policies.MutatingAdmissionPolicyBindings().Delete(ctx, "tarn-mutation", metav1.DeleteOptions{})).To(Succeed())
			Expect(policies.MutatingAdmissionPolicies().Delete(ctx, "tarn-mutation", metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(func() map[string]string {
			labels, _ := dryCreate(ctx, target.kube, ns, "any")
			return labels
		}).WithContext(ctx).WithPolling(fast).Should(HaveKeyWithValue("mutated", "yes"))
	}, SpecTimeout(patience))

	It("finds the Services of webhooks through the resolver, and tells what to do without one", func(ctx SpecContext) {
		onlyOurs()
		server := serveWebhook()
		reference := admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook", Path: ptr.To("/validate")},
		}
		reference.CABundle = authority(server)
		registerValidating(ctx, target.kube, "tarn-unresolved", "kube-public", reference)
		Eventually(func() error {
			_, err := dryCreate(ctx, target.kube, "kube-public", "any")
			return err
		}).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring("set Options.ServiceResolver")))

		env := envtest.StartWith(GinkgoTB(), envtest.Options{
			ServiceResolver: func(namespace, name string, port int32) (*url.URL, error) {
				Expect([]any{namespace, name, port}).To(Equal([]any{"default", "hook", int32(443)}))
				return url.Parse(server.URL)
			},
		})
		kube := kubernetes.NewForConfigOrDie(env.Config())
		registerValidating(ctx, kube, "tarn-resolved", "default", reference)
		Eventually(func() error {
			_, err := dryCreate(ctx, kube, "default", "deny")
			return err
		}).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring("the webhook says no")))
		Expect(apierrors.IsNotFound(target.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().
			Delete(ctx, "tarn-resolved", metav1.DeleteOptions{}))).To(BeTrue(), "environments are apart")
	}, SpecTimeout(patience))
})
