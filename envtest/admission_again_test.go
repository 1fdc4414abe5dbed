// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// rounds are two webhooks for ConfigMaps. The first is asked again as its policy says, and notes the keys that it is shown. The
// second adds a key.
type rounds struct {
	mu    sync.Mutex
	calls []string            // guarded by mu: which webhook was asked
	shown []map[string]string // guarded by mu: what the first was shown
}

// newRounds registers both and returns when they are asked in the namespace.
func newRounds(ctx context.Context, namespace string, policy admissionregistrationv1.ReinvocationPolicyType) *rounds {
	GinkgoHelper()
	r := &rounds{}
	server := serveReviews(func(path string, request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, path)
		var cm corev1.ConfigMap
		if err := json.Unmarshal(request.Object.Raw, &cm); err != nil {
			return err
		}
		if path == "/first" {
			r.shown = append(r.shown, cm.Data)
		} else {
			answer.Patch = []byte(`[{"op":"add","path":"/data/second","value":"was here"}]`)
		}
		return nil
	})
	hook := func(name string, policy admissionregistrationv1.ReinvocationPolicyType) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{
			Name: name + ".tarn.example.com", ReinvocationPolicy: &policy, NamespaceSelector: inNamespace(namespace),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL + "/" + name), CABundle: authority(server)},
			Rules:        []admissionregistrationv1.RuleWithOperations{createdConfigMaps}, AdmissionReviewVersions: []string{"v1"},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		}
	}
	configurations := target.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{hook("first", policy), hook("second", admissionregistrationv1.NeverReinvocationPolicy)},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(configurations.Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
	})
	Eventually(func() []string { return r.ask(ctx, namespace) }).WithContext(ctx).WithPolling(fast).ShouldNot(BeEmpty())
	return r
}

// ask creates a ConfigMap, dry, and returns which webhooks were asked.
func (r *rounds) ask(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	r.mu.Lock()
	r.calls, r.shown = nil, nil
	r.mu.Unlock()
	_, err := target.kube.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("one", "1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	Expect(err).NotTo(HaveOccurred())
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

var _ = Describe("admission that changes objects", func() {
	It("asks a webhook again that wants it, after another one", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		r := newRounds(ctx, namespace, admissionregistrationv1.IfNeededReinvocationPolicy)
		Expect(r.ask(ctx, namespace)).To(Equal([]string{"/first", "/second", "/first"}))
		Expect(r.shown[0]).NotTo(HaveKey("second"))
		Expect(r.shown[1]).To(HaveKeyWithValue("second", "was here"))
	}, SpecTimeout(patience))

	It("asks a webhook once that does not", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		r := newRounds(ctx, namespace, admissionregistrationv1.NeverReinvocationPolicy)
		Expect(r.ask(ctx, namespace)).To(Equal([]string{"/first", "/second"}))
	}, SpecTimeout(patience))

	It("gives a container of a webhook the limits of its namespace", func(ctx SpecContext) {
		w := newWitness(ctx, "pods")
		limit(ctx, w.name, corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: resources("cpu", "2"), DefaultRequest: resources("cpu", "1")})
		w.answer(`[{"op":"add","path":"/spec/containers/-","value":{"name":"side","image":"example.com/side:1"}}]`)
		manifest := pod("one")
		manifest.Labels = w.labels()
		Eventually(ctx, func(g Gomega) {
			made, err := target.kube.CoreV1().Pods(w.name).Create(ctx, manifest, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(made.Spec.Containers).To(HaveLen(2))
			g.Expect(made.Spec.Containers[1].Resources.Requests.Cpu().String()).To(Equal("1"))
			g.Expect(made.Annotations).To(HaveKeyWithValue("kubernetes.io/limit-ranger",
				"LimitRanger plugin set: cpu request for container side; cpu limit for container side"))
		}).WithPolling(fast).Should(Succeed())
	}, SpecTimeout(patience))

	for policy, applied := range map[admissionregistrationv1.ReinvocationPolicyType]bool{
		admissionregistrationv1.IfNeededReinvocationPolicy: true, admissionregistrationv1.NeverReinvocationPolicy: false,
	} {
		It("applies a policy again to what a webhook changed, if it says so: "+string(policy), func(ctx SpecContext) {
			w := newWitness(ctx)
			policies := target.kube.AdmissionregistrationV1().MutatingAdmissionPolicies()
			bindings := target.kube.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
			_, err := policies.Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: w.name},
				Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
					MatchConstraints: &admissionregistrationv1.MatchResources{
						NamespaceSelector: inNamespace(w.name),
						ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: createdConfigMaps}},
					},
					ReinvocationPolicy: policy,
					Mutations: []admissionregistrationv1.Mutation{{
						PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
						ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{metadata: Object.metadata{labels: {"hooked": ` +
							`string("hook" in object.data)}}}`},
					}},
				},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = bindings.Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: w.name},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(bindings.Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
				Expect(policies.Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
			})
			w.answer(`[{"op":"add","path":"/data/hook","value":"was here"}]`)
			cm := configMap("one", "1")
			cm.Labels = w.labels()
			var made *corev1.ConfigMap
			Eventually(ctx, func(g Gomega) {
				made, err = target.kube.CoreV1().ConfigMaps(w.name).Create(ctx, cm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(made.Labels).To(HaveKey("hooked"))
			}).WithPolling(fast).Should(Succeed())
			Expect(made.Data).To(HaveKey("hook"))
			Expect(made.Labels["hooked"] == "true").To(Equal(applied))
		}, SpecTimeout(patience))
	}

	It("counts a quota after all of it", func(ctx SpecContext) {
		w := newWitness(ctx, "services")
		enforceQuota(ctx, w.name, corev1.ResourceQuotaSpec{Hard: resources("services.nodeports", "1")})
		w.answer(`[{"op":"replace","path":"/spec/type","value":"NodePort"}]`)
		balanced := service(corev1.ServiceTypeClusterIP, nil)
		balanced.Labels = w.labels()
		_, err := target.kube.CoreV1().Services(w.name).Create(ctx, balanced, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("exceeded quota: quota, requested: services.nodeports=2")))
		w.answer("")
		_, err = target.kube.CoreV1().Services(w.name).Patch(ctx, "service", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		Expect(err).To(HaveOccurred(), "it was not created")
	}, SpecTimeout(patience))
})
