// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// refusal is a change that makes a sample invalid.
type refusal struct {
	resource string
	change   string   // merge patch of the sample's content
	causes   []string // the fields that are wrong, in order
}

var refusals = []refusal{
	{"runtimeclasses", `{"handler":""}`, []string{"handler"}},
	{"runtimeclasses", `{"handler":"Not.A.Label"}`, []string{"handler"}},
	{"runtimeclasses", `{"scheduling":{"nodeSelector":{"a b":"c"}}}`, []string{"scheduling.nodeSelector"}},
	{"volumeattributesclasses", `{"driverName":""}`, []string{"driverName"}},
	{"volumeattributesclasses", `{"parameters":null}`, []string{"parameters"}},
	{"csistoragecapacities", `{"storageClassName":"No"}`, []string{"storageClassName"}},
	{"csistoragecapacities", `{"capacity":"-1"}`, []string{"capacity"}},
	{"servicecidrs", `{"spec":{"cidrs":[]}}`, []string{"spec.cidrs"}},
	{"servicecidrs", `{"spec":{"cidrs":["10.77.0.0/24","10.78.0.0/24"]}}`, []string{"spec.cidrs"}},
	{"servicecidrs", `{"spec":{"cidrs":["nonsense"]}}`, []string{"spec.cidrs[0]"}},
	{"ipaddresses", `{"spec":{"parentRef":null}}`, []string{"spec.parentRef"}},
	{"ipaddresses", `{"spec":{"parentRef":{"resource":"","name":""}}}`, []string{"spec.parentRef.resource", "spec.parentRef.name"}},
	{"deviceclasses", `{"spec":{"selectors":[{}]}}`, []string{"spec.selectors[0].cel"}},
	{"deviceclasses", `{"spec":{"config":[{}]}}`, []string{"spec.config[0].opaque"}},
	{"resourceclaims", `{"spec":{"devices":{"requests":[{"name":"gpu"}]}}}`, []string{"spec.devices.requests[0]"}},
	{"resourceclaims", `{"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":""}}]}}}`,
		[]string{"spec.devices.requests[0].exactly.deviceClassName"}},
	{"resourceclaims", `{"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"a","allocationMode":"All","count":2}}]}}}`,
		[]string{"spec.devices.requests[0].exactly.count"}},
	{"resourceclaims", `{"spec":{"devices":{"constraints":[{"matchAttribute":"nodomain"}]}}}`, []string{"spec.devices.constraints[0].matchAttribute"}},
	{"resourceslices", `{"spec":{"nodeName":null}}`, []string{"spec"}},
	{"resourceslices", `{"spec":{"driver":""}}`, []string{"spec.driver"}},
	{"resourceslices", `{"spec":{"pool":{"resourceSliceCount":0}}}`, []string{"spec.pool.resourceSliceCount"}},
	{"resourceslices", `{"spec":{"devices":[{"name":"a","attributes":{"x":{}}}]}}`, []string{"spec.devices[0].attributes[x]"}},
	{"flowschemas", `{"spec":{"matchingPrecedence":1}}`, []string{"spec.matchingPrecedence"}},
	{"flowschemas", `{"spec":{"priorityLevelConfiguration":{"name":""}}}`, []string{"spec.priorityLevelConfiguration.name"}},
	{"flowschemas", `{"spec":{"rules":[{"subjects":[{"kind":"User"}],"nonResourceRules":[{"verbs":["fly"],"nonResourceURLs":["x"]}]}]}}`, []string{
		"spec.rules[0].subjects[0].user", "spec.rules[0].nonResourceRules[0].verbs", "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]"}},
	{"prioritylevelconfigurations", `{"spec":{"type":"Exempt"}}`, []string{"spec.type", "spec.limited"}},
	{"prioritylevelconfigurations", `{"spec":{"limited":{"limitResponse":{"type":"Queue"}}}}`, []string{"spec.limited.limitResponse.queuing"}},
	{"prioritylevelconfigurations", `{"spec":{"limited":{"lendablePercent":101}}}`, []string{"spec.limited.lendablePercent"}},
	{"certificatesigningrequests", `{"spec":{"request":"bm9uc2Vuc2U="}}`, []string{"spec.request"}},
	{"certificatesigningrequests", `{"spec":{"usages":[]}}`, []string{"spec.usages"}},
	{"certificatesigningrequests", `{"spec":{"usages":["flying"]}}`, []string{"spec.usages[0]"}},
	{"certificatesigningrequests", `{"spec":{"signerName":"nodomain"}}`, []string{"spec.signerName"}},
	{"certificatesigningrequests", `{"spec":{"expirationSeconds":1}}`, []string{"spec.expirationSeconds"}},
}

var _ = Describe("a kind of the platform", func() {
	for _, r := range refusals {
		It("refuses "+r.resource+" that are changed by "+r.change, func(ctx SpecContext) {
			objects, obj := sampleOf(r.resource).object(ctx)
			merge(obj, r.change)
			_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(Equal(r.causes), "%v", err)
		}, SpecTimeout(patience))
	}
})

// sampleOf finds the sample of a resource.
func sampleOf(resource string) sample {
	GinkgoHelper()
	for _, s := range platformSamples() {
		if s.resource.Resource == resource {
			return s
		}
	}
	Fail("no sample of " + resource)
	return sample{}
}

// merge changes an object by a JSON merge patch.
func merge(obj *unstructured.Unstructured, patch string) {
	GinkgoHelper()
	var change map[string]any
	Expect(json.Unmarshal([]byte(patch), &change)).To(Succeed())
	mergeInto(obj.Object, change)
}

func mergeInto(into, change map[string]any) {
	for key, value := range change {
		inner, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			mergeInto(old, inner)
		default:
			into[key] = value
		}
	}
}

var _ = Describe("a RuntimeClass", func() {
	It("gives Pods its overhead, nodes and tolerations, and must exist", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		classes := target.kube.NodeV1().RuntimeClasses()
		_, err := classes.Create(ctx, &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: namespace}, Handler: "runc",
			Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("10m")}},
			Scheduling: &nodev1.Scheduling{
				NodeSelector: map[string]string{"runtime": "runc"},
				Tolerations:  []corev1.Toleration{{Key: "runtime", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(classes.Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed()) })

		pods, one := target.kube.CoreV1().Pods(namespace), pod("one")
		one.Spec.RuntimeClassName, one.Spec.NodeSelector = &namespace, map[string]string{"zone": "a"}
		one, err = pods.Create(ctx, one, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(one.Spec.Overhead.Cpu().String()).To(Equal("10m"))
		Expect(one.Spec.NodeSelector).To(Equal(map[string]string{"zone": "a", "runtime": "runc"}))
		Expect(one.Spec.Tolerations).To(ContainElement(HaveField("Key", "runtime")))

		two := pod("two")
		two.Spec.RuntimeClassName, two.Spec.NodeSelector = &namespace, map[string]string{"runtime": "other"}
		_, err = pods.Create(ctx, two, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		two.Spec.RuntimeClassName, two.Spec.NodeSelector = ptr.To("nobody"), nil
		_, err = pods.Create(ctx, two, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`RuntimeClass "nobody" not found`)))
	}, SpecTimeout(patience))
})

var _ = Describe("a HorizontalPodAutoscaler", func() {
	It("is one object in autoscaling/v1 and autoscaling/v2, and neither loses what the other says", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		v1, v2 := target.kube.AutoscalingV1().HorizontalPodAutoscalers(namespace), target.kube.AutoscalingV2().HorizontalPodAutoscalers(namespace)
		ref := autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "a", APIVersion: "apps/v1"}
		made, err := v2.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: ref, MaxReplicas: 3,
				Metrics: []autoscalingv2.MetricSpec{
					{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
						Metric: autoscalingv2.MetricIdentifier{Name: "requests"},
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(quantity.MustParse("5"))},
					}},
					{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
						Name:   corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
					}},
				},
				Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](9)}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		old, err := v1.Get(ctx, "a", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(old.Spec.TargetCPUUtilizationPercentage).To(Equal(ptr.To[int32](70)))
		Expect(old.Annotations).To(HaveKey("autoscaling.alpha.kubernetes.io/metrics"))
		Expect(old.Annotations["autoscaling.alpha.kubernetes.io/behavior"]).To(ContainSubstring(`"StabilizationWindowSeconds":9`))
		old.Spec.MaxReplicas = 4
		_, err = v1.Update(ctx, old, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		read, err := v2.Get(ctx, "a", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Spec.MaxReplicas).To(BeEquivalentTo(4))
		read.Spec.MaxReplicas = 3
		Expect(read.Spec).To(Equal(made.Spec))
		Expect(read.Annotations).To(BeEmpty())

		_, err = v1.Create(ctx, &autoscalingv1.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "b"},
			Spec:       autoscalingv1.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(ref), MaxReplicas: 3},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		read, err = v2.Get(ctx, "b", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Spec.Metrics).To(HaveLen(1))
		Expect(read.Spec.Metrics[0].Resource.Target.AverageUtilization).To(Equal(ptr.To[int32](80)))
	}, SpecTimeout(patience))
})

var _ = Describe("a CertificateSigningRequest", func() {
	// newRequest makes one.
	newRequest := func(ctx context.Context) *unstructured.Unstructured {
		GinkgoHelper()
		objects, obj := sampleOf("certificatesigningrequests").object(ctx)
		merge(obj, `{"spec":{"username":"somebody-else","groups":["others"]}}`)
		made, err := objects.Create(ctx, obj, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(objects.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})).To(Succeed())
		})
		return made
	}

	It("notes who asks, and keeps what was asked for", func(ctx SpecContext) {
		made := newRequest(ctx)
		requests := target.kube.CertificatesV1().CertificateSigningRequests()
		csr, err := requests.Get(ctx, made.GetName(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(csr.Spec.Username).NotTo(Equal("somebody-else"))
		Expect(csr.Spec.Groups).To(ConsistOf("system:masters", "system:authenticated"))
		asked := csr.Spec
		csr.Spec.SignerName, csr.Labels = "example.com/other", map[string]string{"a": "b"}
		csr, err = requests.Update(ctx, csr, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(csr.Spec).To(Equal(asked))
		Expect(csr.Labels).To(HaveKeyWithValue("a", "b"))
	}, SpecTimeout(patience))

	It("is approved through its subresource alone, and stays approved", func(ctx SpecContext) {
		name := newRequest(ctx).GetName()
		requests := target.kube.CertificatesV1().CertificateSigningRequests()
		csr, err := requests.Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		approved := certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tested",
		}
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approved}
		_, err = requests.UpdateStatus(ctx, csr, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(causes(err)).To(Equal([]string{"status.conditions"}))

		csr.Status.Certificate = []byte("ignored")
		csr, err = requests.UpdateApproval(ctx, name, csr, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(csr.Status.Certificate).To(BeEmpty())
		Expect(csr.Status.Conditions).To(HaveLen(1))
		Expect(csr.Status.Conditions[0].LastTransitionTime.IsZero()).To(BeFalse())
		Expect(csr.Status.Conditions[0].LastUpdateTime.IsZero()).To(BeFalse())

		denied := csr.DeepCopy()
		denied.Status.Conditions = append(denied.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue,
		})
		_, err = requests.UpdateApproval(ctx, name, denied, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		taken := csr.DeepCopy()
		taken.Status.Conditions = nil
		_, err = requests.UpdateApproval(ctx, name, taken, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)

		csr.Status.Certificate = []byte("nonsense")
		_, err = requests.UpdateStatus(ctx, csr, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(causes(err)).To(Equal([]string{"status.certificate"}))
		_, err = requests.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"conditions":[]}}`), metav1.PatchOptions{}, "status")
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})

var _ = Describe("a FlowSchema", func() {
	It("has a precedence and a level, and another status than its spec", func(ctx SpecContext) {
		objects, obj := sampleOf("flowschemas").object(ctx)
		merge(obj, `{"spec":{"matchingPrecedence":null},"status":{"conditions":[{"type":"Mine","status":"True"}]}}`)
		made, err := objects.Create(ctx, obj, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(objects.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})).To(Succeed())
		})
		Expect(made.GetGeneration()).To(BeEquivalentTo(1))
		schemas := target.kube.FlowcontrolV1().FlowSchemas()
		read, err := schemas.Get(ctx, obj.GetName(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Spec.MatchingPrecedence).To(BeEquivalentTo(1000))
		Expect(read.Status.Conditions).NotTo(ContainElement(HaveField("Type", flowcontrolv1.FlowSchemaConditionType("Mine"))))
		read, err = schemas.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(`{"spec":{"matchingPrecedence":9001}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Generation).To(BeEquivalentTo(2))
	}, SpecTimeout(patience))
})

var _ = Describe("a Binding", func() {
	It("puts a Pod on a node in the old way too", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		_, err := target.kube.CoreV1().Pods(namespace).Create(ctx, pod("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		bind := func(node string) error {
			return target.kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("bindings").Body(&corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "one"}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
			}).Do(ctx).Error()
		}
		Expect(bind("here")).To(Succeed())
		one, err := target.kube.CoreV1().Pods(namespace).Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(one.Spec.NodeName).To(Equal("here"))
		Expect(apierrors.IsConflict(bind("there"))).To(BeTrue())
	}, SpecTimeout(patience))
})

var _ = Describe("componentstatuses", func() {
	It("says that etcd is healthy, and what is wrong with who does not answer", func(ctx SpecContext) {
		list, err := target.kube.CoreV1().ComponentStatuses().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		health := map[string]corev1.ComponentCondition{}
		for _, status := range list.Items {
			health[status.Name] = status.Conditions[0]
		}
		Expect(health).To(HaveLen(3))
		Expect(health["etcd-0"].Status).To(Equal(corev1.ConditionTrue))
		for _, name := range []string{"scheduler", "controller-manager"} {
			if health[name].Status == corev1.ConditionFalse { // the machine may run one
				Expect(health[name].Message).To(ContainSubstring("https://127.0.0.1:"))
			}
		}
		one, err := target.kube.CoreV1().ComponentStatuses().Get(ctx, "etcd-0", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(one.Conditions[0].Message).To(HavePrefix("ok"))
		_, err = target.kube.CoreV1().ComponentStatuses().Get(ctx, "nobody", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(strings.ToLower(err.Error())).To(ContainSubstring("componentstatus"))
	}, SpecTimeout(patience))
})
