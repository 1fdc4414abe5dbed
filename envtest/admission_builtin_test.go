// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// witnessLabel marks what the witness of one spec is shown.
const witnessLabel = "tarn.example.com/witness"

// witness is a mutating webhook that keeps what it is shown.
type witness struct {
	name  string // the value of witnessLabel
	mu    sync.Mutex
	shown map[string][]byte // guarded by mu: the last object by operation, resource and subresource
	patch string            // guarded by mu: the JSON patch of its next answers
}

// newWitness registers a witness of some core resources, in the state in which the server asks it.
func newWitness(ctx context.Context, resources ...string) *witness {
	GinkgoHelper()
	w := &witness{name: newNamespace(ctx), shown: map[string][]byte{}}
	server := serveReviews(func(_ string, request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shown[fmt.Sprintf("%s %s/%s", request.Operation, request.Resource.Resource, request.SubResource)] = request.Object.Raw
		if w.patch != "" {
			answer.Patch = []byte(w.patch)
		}
		return nil
	})
	configurations := target.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "witness.tarn.example.com", SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: authority(server)},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: w.labels()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: append(resources, "configmaps")},
			}},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(configurations.Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
	})
	Eventually(func() bool {
		cm := configMap("probe", "1")
		cm.Labels = w.labels()
		_, err := target.kube.CoreV1().ConfigMaps(w.name).Create(ctx, cm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).NotTo(HaveOccurred())
		return w.saw("CREATE configmaps/")
	}).WithContext(ctx).WithPolling(fast).Should(BeTrue())
	return w
}

func (w *witness) labels() map[string]string { return map[string]string{witnessLabel: w.name} }

// saw reports whether the witness was shown such a request.
func (w *witness) saw(request string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown[request] != nil
}

// object decodes what the witness was shown last.
func (w *witness) object(request string, into any) {
	GinkgoHelper()
	w.mu.Lock()
	defer w.mu.Unlock()
	Expect(w.shown).To(HaveKey(request))
	Expect(json.Unmarshal(w.shown[request], into)).To(Succeed())
}

// answer makes the witness a webhook that changes what it is shown.
func (w *witness) answer(patch string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patch = patch
}

// defaultTolerations are those of a Pod that names none.
func defaultTolerations() []corev1.Toleration {
	seconds := ptr.To[int64](300)
	return []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds},
	}
}

var _ = Describe("built-in admission", func() {
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

	It("has given a Pod its priority and tolerations before webhooks see it", func(ctx SpecContext) {
		w := newWitness(ctx, "pods", "pods/status")
		pods := target.kube.CoreV1().Pods(w.name)
		manifest := pod("one")
		manifest.Labels = w.labels()
		_, err := pods.Create(ctx, manifest, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		expectAdmitted := func(request string) {
			GinkgoHelper()
			var shown corev1.Pod
			w.object(request, &shown)
			Expect(shown.Spec.Priority).To(HaveValue(BeZero()))
			Expect(shown.Spec.PreemptionPolicy).To(HaveValue(Equal(corev1.PreemptLowerPriority)))
			Expect(shown.Spec.Tolerations).To(Equal(defaultTolerations()))
		}
		expectAdmitted("CREATE pods/")

		By("putting the manifest, which has neither")
		manifest.Spec.Containers[0].Image = "example.com/image:2"
		_, err = pods.Update(ctx, manifest, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		expectAdmitted("UPDATE pods/")

		By("writing the status, which is none of its business")
		manifest.Status.Phase = corev1.PodRunning
		_, err = pods.UpdateStatus(ctx, manifest, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var shown corev1.Pod
		w.object("UPDATE pods/status", &shown)
		Expect(shown.Spec.Priority).To(BeNil())
		Expect(shown.Spec.Tolerations).To(BeEmpty())
	}, SpecTimeout(patience))

	It("has its say again after a webhook", func(ctx SpecContext) {
		w := newWitness(ctx, "pods")
		pods := target.kube.CoreV1().Pods(w.name)
		manifest := pod("one")
		manifest.Labels = w.labels()
		w.answer(`[{"op":"replace","path":"/spec/tolerations","value":[]}]`)
		made, err := pods.Create(ctx, manifest, dryRun)
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Tolerations).To(Equal(defaultTolerations()))

		By("a priority class that does not fit the priority")
		w.answer(`[{"op":"add","path":"/spec/priorityClassName","value":"system-node-critical"}]`)
		_, err = pods.Create(ctx, manifest, dryRun)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		w.answer(`[{"op":"add","path":"/spec/priorityClassName","value":"system-node-critical"},{"op":"remove","path":"/spec/priority"}]`)
		made, err = pods.Create(ctx, manifest, dryRun)
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Priority).To(HaveValue(Equal(int32(2000001000))))
	}, SpecTimeout(patience))

	It("has tainted Nodes and protected volumes before webhooks see them", func(ctx SpecContext) {
		w := newWitness(ctx, "nodes", "persistentvolumes", "persistentvolumeclaims")
		meta := metav1.ObjectMeta{Name: w.name, Labels: w.labels()}
		_, err := target.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: meta}, dryRun)
		Expect(err).NotTo(HaveOccurred())
		var node corev1.Node
		w.object("CREATE nodes/", &node)
		Expect(node.Spec.Taints).To(Equal([]corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}))

		storage := corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		_, err = target.kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
			Capacity: storage, AccessModes: modes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		}}, dryRun)
		Expect(err).NotTo(HaveOccurred())
		var volume corev1.PersistentVolume
		w.object("CREATE persistentvolumes/", &volume)
		Expect(volume.Finalizers).To(Equal([]string{"kubernetes.io/pv-protection"}))

		_, err = target.kube.CoreV1().PersistentVolumeClaims(w.name).Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: storage},
			},
		}, dryRun)
		Expect(err).NotTo(HaveOccurred())
		var claim corev1.PersistentVolumeClaim
		w.object("CREATE persistentvolumeclaims/", &claim)
		Expect(claim.Finalizers).To(Equal([]string{"kubernetes.io/pvc-protection"}))
	}, SpecTimeout(patience))
})

var _ = Describe("a priority", func() {
	// of creates a Pod for good, with what a spec wants of it.
	of := func(ctx context.Context, change func(*corev1.PodSpec)) (*corev1.Pod, error) {
		GinkgoHelper()
		p := pod("one")
		change(&p.Spec)
		return target.kube.CoreV1().Pods(newNamespace(ctx)).Create(ctx, p, metav1.CreateOptions{})
	}

	for name, value := range map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
		It("is the system's: "+name, func(ctx SpecContext) {
			classes := target.kube.SchedulingV1().PriorityClasses()
			class, err := classes.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(class.Value).To(Equal(value))
			Expect(class.Description).To(HavePrefix("Used for system critical pods that must"))
			made, err := of(ctx, func(spec *corev1.PodSpec) { spec.PriorityClassName, spec.Priority = name, &value })
			Expect(err).NotTo(HaveOccurred())
			Expect(made.Spec.Priority).To(HaveValue(Equal(value)))

			By("trying to change it")
			Expect(apierrors.IsForbidden(classes.Delete(ctx, name, metav1.DeleteOptions{}))).To(BeTrue())
			other := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value - 1}
			_, err = classes.Create(ctx, other, metav1.CreateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring("value of %s PriorityClass must be %d", name, value)))
			other.Value, other.GlobalDefault = value, true
			_, err = classes.Create(ctx, other, metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring("globalDefault of %s PriorityClass must be false", name)))
		}, SpecTimeout(patience))
	}

	for why, change := range map[string]func(*corev1.PodSpec){
		"a priority without a class": func(spec *corev1.PodSpec) { spec.Priority = ptr.To[int32](77) },
		"a priority of another class": func(spec *corev1.PodSpec) {
			spec.PriorityClassName, spec.Priority = "system-node-critical", ptr.To[int32](2000000000)
		},
		"a policy without a class": func(spec *corev1.PodSpec) { spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) },
		"an unknown class":         func(spec *corev1.PodSpec) { spec.PriorityClassName = "nobody-knows" },
	} {
		It("is refused: "+why, func(ctx SpecContext) {
			_, err := of(ctx, change)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		}, SpecTimeout(patience))
	}

	It("may be named if it is the one that is meant", func(ctx SpecContext) {
		made, err := of(ctx, func(spec *corev1.PodSpec) {
			spec.Priority, spec.PreemptionPolicy = ptr.To[int32](0), ptr.To(corev1.PreemptLowerPriority)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Priority).To(HaveValue(BeZero()))
	}, SpecTimeout(patience))

	It("is that of the default class, of which there is one", func(ctx SpecContext) {
		classes := target.kube.SchedulingV1().PriorityClasses()
		namespace := newNamespace(ctx)
		pods := target.kube.CoreV1().Pods(namespace)
		expectClass := func(ctx context.Context, name string) *corev1.Pod {
			GinkgoHelper()
			var made *corev1.Pod
			// A kube-apiserver notices classes a little later than they are written.
			Eventually(func() (string, error) {
				var err error
				made, err = pods.Create(ctx, pod("one"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return made.Spec.PriorityClassName, err
			}).WithContext(ctx).WithPolling(fast).Should(Equal(name))
			return made
		}
		create := func(name string) error {
			_, err := classes.Create(ctx, &schedulingv1.PriorityClass{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 42, GlobalDefault: true, PreemptionPolicy: ptr.To(corev1.PreemptNever),
			}, metav1.CreateOptions{})
			return err
		}
		Expect(create(namespace)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(classes.Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
			expectClass(ctx, "")
		})
		made := expectClass(ctx, namespace)
		Expect(made.Spec.Priority).To(HaveValue(Equal(int32(42))))
		Expect(made.Spec.PreemptionPolicy).To(HaveValue(Equal(corev1.PreemptNever)))

		err := create(namespace + "-2")
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("%s is already marked as default", namespace)))
		_, err = classes.Patch(ctx, namespace, types.MergePatchType, []byte(`{"description":"still the default"}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = classes.Patch(ctx, "system-node-critical", types.MergePatchType, []byte(`{"globalDefault":true}`), metav1.PatchOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("is known as soon as its class is", func(ctx SpecContext) {
		onlyOurs() // a kube-apiserver may answer 403 for a moment, which makes tests flake
		classes := target.kube.SchedulingV1().PriorityClasses()
		pods := target.kube.CoreV1().Pods(newNamespace(ctx))
		class := func() string {
			made, err := pods.Create(ctx, pod("one"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			Expect(err).NotTo(HaveOccurred())
			return made.Spec.PriorityClassName
		}
		for i := range 50 {
			name := fmt.Sprintf("quick-%d", i)
			_, err := classes.Create(ctx, &schedulingv1.PriorityClass{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(i), GlobalDefault: true,
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(class()).To(Equal(name))
			Expect(classes.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			Expect(class()).To(BeEmpty())
		}
	}, SpecTimeout(patience))
})
