// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// enforceQuota creates a quota and does what the quota controller does for it: nothing is used. It returns when the server
// enforces it.
func enforceQuota(ctx context.Context, namespace string, spec corev1.ResourceQuotaSpec) {
	GinkgoHelper()
	quotas := target.kube.CoreV1().ResourceQuotas(namespace)
	put := func(name string, spec corev1.ResourceQuotaSpec) {
		GinkgoHelper()
		made, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		made.Status.Hard, made.Status.Used = spec.Hard, corev1.ResourceList{}
		for resource := range spec.Hard {
			made.Status.Used[resource] = quantity.MustParse("0")
		}
		_, err = quotas.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	put("quota", spec)
	put("probe", corev1.ResourceQuotaSpec{Hard: resources("count/leases.coordination.k8s.io", "0")}) // the server learns of quotas in order
	if target.env != nil {
		return // here a quota is in force when its status is written
	}
	Eventually(ctx, func() error {
		return createAny(ctx, namespace, lease("probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}).WithPolling(fast).Should(MatchError(ContainSubstring("exceeded quota: probe")))
}

// lease is an object of a kind that few specs use.
func lease(name string) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": name},
	}}
}

// createAny creates an object of any kind that has an ordinary plural.
func createAny(ctx context.Context, namespace string, obj runtime.Object, options metav1.CreateOptions) error {
	GinkgoHelper()
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		Expect(err).NotTo(HaveOccurred())
		gvk = kinds[0]
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	Expect(err).NotTo(HaveOccurred())
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	_, err = target.dyn.Resource(plural).Namespace(namespace).Create(ctx, u, options)
	return err
}

// used is what a quota counted, without what it did not.
func used(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	quota, err := target.kube.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	counted := map[string]string{}
	for name, value := range quota.Status.Used {
		if !value.IsZero() {
			counted[string(name)] = value.String()
		}
	}
	return counted
}

// everything is a quota that never ends, of all that can be counted of Pods, Services, claims, and others.
func everything() corev1.ResourceQuotaSpec {
	names := []string{
		"pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
		"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.example.com/gpu", "hugepages-2Mi", "requests.hugepages-2Mi", "count/pods",
		"services", "services.nodeports", "services.loadbalancers", "count/services",
		"persistentvolumeclaims", "requests.storage", "count/persistentvolumeclaims",
		"gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
		"lead.storageclass.storage.k8s.io/requests.storage",
		"configmaps", "count/configmaps", "secrets", "count/secrets", "replicationcontrollers", "resourcequotas", "count/deployments.apps",
		"count/resourceclaims.resource.k8s.io", "fast.deviceclass.resource.k8s.io/devices",
	}
	hard := corev1.ResourceList{}
	for _, name := range names {
		hard[corev1.ResourceName(name)] = quantity.MustParse("1Ti")
	}
	return corev1.ResourceQuotaSpec{Hard: hard}
}

// sized is a Pod whose container has requests and limits, which are pairs of names and values.
func sized(requests, limits corev1.ResourceList) *corev1.Pod {
	p := pod("sized")
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return p
}

// both are requests and limits that satisfy a quota for each.
func both(more ...string) *corev1.Pod {
	all := resources(append([]string{"cpu", "1", "memory", "1Gi"}, more...)...)
	return sized(all, all)
}

var _ = Describe("a quota", func() {
	DescribeTable("counts", func(ctx SpecContext, obj runtime.Object, want map[string]string) {
		namespace := newNamespace(ctx)
		enforceQuota(ctx, namespace, everything())
		before := used(ctx, namespace)
		Expect(before).To(Or(BeEmpty(), Equal(map[string]string{"resourcequotas": "1"}))) // the probe, perhaps
		Expect(createAny(ctx, namespace, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})).To(Succeed())
		Expect(used(ctx, namespace)).To(Equal(before))
		Expect(createAny(ctx, namespace, obj, metav1.CreateOptions{})).To(Succeed())
		for name, value := range before {
			want[name] = value
		}
		Expect(used(ctx, namespace)).To(Equal(want))
	},
		Entry("a Pod", both("ephemeral-storage", "1Gi", "example.com/gpu", "2", "hugepages-2Mi", "4Mi"), map[string]string{
			"pods": "1", "count/pods": "1", "cpu": "1", "requests.cpu": "1", "limits.cpu": "1", "memory": "1Gi", "requests.memory": "1Gi",
			"limits.memory": "1Gi", "ephemeral-storage": "1Gi", "requests.ephemeral-storage": "1Gi", "limits.ephemeral-storage": "1Gi",
			"requests.example.com/gpu": "2", "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi",
		}, SpecTimeout(patience)),
		Entry("a Pod with init containers", func() *corev1.Pod {
			p := both()
			always := corev1.ContainerRestartPolicyAlways
			side, first := p.Spec.Containers[0].DeepCopy(), p.Spec.Containers[0].DeepCopy()
			side.Name, side.RestartPolicy, first.Name = "side", &always, "first"
			first.Resources.Requests, first.Resources.Limits = resources("cpu", "5", "memory", "1Gi"), resources("cpu", "5", "memory", "1Gi")
			p.Spec.InitContainers = []corev1.Container{*side, *first}
			return p
		}(), map[string]string{
			"pods": "1", "count/pods": "1", "cpu": "6", "requests.cpu": "6", "limits.cpu": "6", "memory": "2Gi", "requests.memory": "2Gi",
			"limits.memory": "2Gi",
		}, SpecTimeout(patience)),
		Entry("a Pod with resources of its own", func() *corev1.Pod {
			p := pod("whole")
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: resources("cpu", "3"), Limits: resources("cpu", "4", "memory", "2Gi")}
			return p
		}(), map[string]string{
			"pods": "1", "count/pods": "1", "cpu": "3", "requests.cpu": "3", "limits.cpu": "4", "memory": "2Gi", "requests.memory": "2Gi",
			"limits.memory": "2Gi",
		}, SpecTimeout(patience)),
		Entry("a Service", service(corev1.ServiceTypeClusterIP, nil), map[string]string{"services": "1", "count/services": "1"}, SpecTimeout(patience)),
		Entry("ports of nodes", service(corev1.ServiceTypeNodePort, nil), map[string]string{
			"services": "1", "count/services": "1", "services.nodeports": "2",
		}, SpecTimeout(patience)),
		Entry("a load balancer", service(corev1.ServiceTypeLoadBalancer, nil), map[string]string{
			"services": "1", "count/services": "1", "services.nodeports": "2", "services.loadbalancers": "1",
		}, SpecTimeout(patience)),
		Entry("a load balancer without ports", service(corev1.ServiceTypeLoadBalancer, ptr.To(false)), map[string]string{
			"services": "1", "count/services": "1", "services.loadbalancers": "1",
		}, SpecTimeout(patience)),
		Entry("a claim of a class, in whole bytes", claimOf(ptr.To("gold"), "1500m"), map[string]string{
			"persistentvolumeclaims": "1", "count/persistentvolumeclaims": "1", "requests.storage": "2",
			"gold.storageclass.storage.k8s.io/requests.storage": "2", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
		}, SpecTimeout(patience)),
		Entry("a claim of no class", claimOf(ptr.To(""), "1Gi"), map[string]string{
			"persistentvolumeclaims": "1", "count/persistentvolumeclaims": "1", "requests.storage": "1Gi",
		}, SpecTimeout(patience)),
		Entry("a ConfigMap", configMap("one", "1"), map[string]string{"configmaps": "1", "count/configmaps": "1"}, SpecTimeout(patience)),
		Entry("a Secret", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, map[string]string{"secrets": "1", "count/secrets": "1"}, SpecTimeout(patience)),
		Entry("a Deployment", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "one"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod("one").ObjectMeta, Spec: pod("one").Spec},
		}}, map[string]string{"count/deployments.apps": "1"}, SpecTimeout(patience)),
		Entry("a claim of devices", &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
				{Name: "some", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "fast", Count: 3}},
				{Name: "either", FirstAvailable: []resourcev1.DeviceSubRequest{
					{Name: "a", DeviceClassName: "fast", Count: 2}, {Name: "b", DeviceClassName: "slow", Count: 1}, {Name: "c", DeviceClassName: "fast", Count: 5},
				}},
			}},
		}}, map[string]string{"count/resourceclaims.resource.k8s.io": "1", "fast.deviceclass.resource.k8s.io/devices": "8"}, SpecTimeout(patience)),
	)

	DescribeTable("refuses", func(ctx SpecContext, spec corev1.ResourceQuotaSpec, obj runtime.Object, why string) {
		namespace := newNamespace(ctx)
		enforceQuota(ctx, namespace, spec)
		err := createAny(ctx, namespace, obj, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(HaveSuffix(why)))
		Expect(used(ctx, namespace)).To(BeEmpty())
	},
		Entry("what is too much", corev1.ResourceQuotaSpec{Hard: resources("requests.cpu", "1", "pods", "0", "requests.memory", "8Gi")}, sized(resources("cpu", "2", "memory", "1Gi"), nil),
			"exceeded quota: quota, requested: pods=1,requests.cpu=2, used: pods=0,requests.cpu=0, limited: pods=0,requests.cpu=1", SpecTimeout(patience)),
		Entry("Pods that do not say what they need", corev1.ResourceQuotaSpec{Hard: resources("limits.memory", "1Gi", "cpu", "1")}, sized(resources("memory", "1Gi"), nil),
			"failed quota: quota: must specify cpu for: main; limits.memory for: main", SpecTimeout(patience)),
		Entry("objects without an evaluator of their own", corev1.ResourceQuotaSpec{Hard: resources("count/podtemplates", "0")},
			&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Template: corev1.PodTemplateSpec{Spec: pod("one").Spec}},
			"exceeded quota: quota, requested: count/podtemplates=1, used: count/podtemplates=0, limited: count/podtemplates=0", SpecTimeout(patience)),
	)

	It("does not count for a quota that was deleted", func(ctx SpecContext) {
		onlyOurs() // a real server learns of it a little later
		ns := newNamespace(ctx)
		quotas := target.kube.CoreV1().ResourceQuotas(ns)
		for i := range 50 {
			enforceQuota(ctx, ns, corev1.ResourceQuotaSpec{Hard: resources("count/leases.coordination.k8s.io", "0")})
			Expect(createAny(ctx, ns, lease(fmt.Sprint("lease", i)), metav1.CreateOptions{})).To(MatchError(ContainSubstring("exceeded quota")))
			if i%2 == 0 {
				Expect(quotas.Delete(ctx, "quota", metav1.DeleteOptions{})).To(Succeed())
				Expect(quotas.Delete(ctx, "probe", metav1.DeleteOptions{})).To(Succeed())
			} else {
				Expect(quotas.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
			}
			Expect(createAny(ctx, ns, lease(fmt.Sprint("lease", i)), metav1.CreateOptions{})).To(Succeed(), "quota %d", i)
		}
	})

	It("is not in force before somebody writes its status", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		quotas := target.kube.CoreV1().ResourceQuotas(namespace)
		made, err := quotas.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: resources("configmaps", "1")},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Status).To(BeZero())
		createConfigMaps(ctx, namespace, 2)

		made.Status.Hard = made.Spec.Hard
		_, err = quotas.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error {
			return createAny(ctx, namespace, configMap("third", "3"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		}).WithPolling(fast).Should(MatchError(HaveSuffix("status unknown for quota: quota, resources: configmaps")))
	}, SpecTimeout(patience))

	It("is in force at once", func(ctx SpecContext) {
		onlyOurs()
		for range 20 {
			namespace := newNamespace(ctx)
			enforceQuota(ctx, namespace, corev1.ResourceQuotaSpec{Hard: resources("configmaps", "1")})
			Expect(createAny(ctx, namespace, configMap("one", "1"), metav1.CreateOptions{})).To(Succeed())
			Expect(createAny(ctx, namespace, configMap("two", "2"), metav1.CreateOptions{})).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		}
	}, SpecTimeout(patience))

	It("is not exceeded by requests that come together", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		enforceQuota(ctx, namespace, corev1.ResourceQuotaSpec{Hard: resources("configmaps", "7")})
		var made, refused atomic.Int32
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				defer GinkgoRecover()
				switch err := createAny(ctx, namespace, configMap(fmt.Sprintf("cm-%d", i), "1"), metav1.CreateOptions{}); {
				case err == nil:
					made.Add(1)
				case apierrors.IsForbidden(err):
					refused.Add(1)
				default:
					Fail(err.Error())
				}
			})
		}
		all.Wait()
		Expect(made.Load()).To(Equal(int32(7)))
		Expect(refused.Load()).To(Equal(int32(23)))
		Expect(used(ctx, namespace)).To(Equal(map[string]string{"configmaps": "7"}))
	}, SpecTimeout(patience))

	It("counts what an update changes", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		enforceQuota(ctx, namespace, corev1.ResourceQuotaSpec{Hard: resources("services.nodeports", "2", "services.loadbalancers", "0",
			"requests.storage", "3Gi", "requests.cpu", "2", "configmaps", "1")})
		Expect(createAny(ctx, namespace, service(corev1.ServiceTypeClusterIP, nil), metav1.CreateOptions{})).To(Succeed())
		change := func(kind schema.GroupVersionResource, name, patch string, subresources ...string) error {
			_, err := target.dyn.Resource(kind).Namespace(namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
			return err
		}
		services, pods := corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("pods")
		Expect(change(services, "service", `{"spec":{"type":"LoadBalancer"}}`)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(change(services, "service", `{"spec":{"type":"NodePort"}}`)).To(Succeed())
		Expect(used(ctx, namespace)).To(Equal(map[string]string{"services.nodeports": "2"}))
		quota, err := target.kube.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(quota.ManagedFields).To(ContainElement(And(HaveField("Manager", "kube-apiserver"), HaveField("Subresource", "status"))))

		By("resizing a Pod")
		Expect(createAny(ctx, namespace, sized(resources("cpu", "1"), nil), metav1.CreateOptions{})).To(Succeed())
		resize := `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"%s"}}}]}}`
		Expect(change(pods, "sized", fmt.Sprintf(resize, "3"), "resize")).To(MatchError(ContainSubstring("exceeded quota")))
		Expect(change(pods, "sized", fmt.Sprintf(resize, "2"), "resize")).To(Succeed())
		Expect(used(ctx, namespace)).To(HaveKeyWithValue("requests.cpu", "2"))

		By("deleting what was counted, which only the quota controller notices")
		Expect(target.kube.CoreV1().Services(namespace).Delete(ctx, "service", metav1.DeleteOptions{})).To(Succeed())
		Expect(used(ctx, namespace)).To(HaveKeyWithValue("services.nodeports", "2"))
	}, SpecTimeout(patience))

	DescribeTable("has scopes", func(ctx SpecContext, spec corev1.ResourceQuotaSpec, inside, outside runtime.Object) {
		namespace := newNamespace(ctx)
		enforceQuota(ctx, namespace, spec)
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		Expect(createAny(ctx, namespace, inside, dry)).To(MatchError(ContainSubstring("exceeded quota: quota")))
		Expect(createAny(ctx, namespace, outside, dry)).To(Succeed())
	},
		Entry("Terminating", scoped(corev1.ResourceQuotaScopeTerminating), limitedPod(), pod("other"), SpecTimeout(patience)),
		Entry("NotTerminating", scoped(corev1.ResourceQuotaScopeNotTerminating), pod("other"), limitedPod(), SpecTimeout(patience)),
		Entry("BestEffort", scoped(corev1.ResourceQuotaScopeBestEffort), pod("other"), both(), SpecTimeout(patience)),
		Entry("NotBestEffort", scoped(corev1.ResourceQuotaScopeNotBestEffort), both(), pod("other"), SpecTimeout(patience)),
		Entry("PriorityClass", scoped(corev1.ResourceQuotaScopePriorityClass), critical("system-node-critical"), pod("other"), SpecTimeout(patience)),
		Entry("some priority classes", selecting(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn, "system-node-critical"),
			critical("system-node-critical"), critical("system-cluster-critical"), SpecTimeout(patience)),
		Entry("all but some priority classes", selecting(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpNotIn, "system-node-critical"),
			pod("other"), critical("system-node-critical"), SpecTimeout(patience)),
		Entry("CrossNamespacePodAffinity", scoped(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), affine("elsewhere"), affine(), SpecTimeout(patience)),
		Entry("VolumeAttributesClass", corev1.ResourceQuotaSpec{
			Hard: resources("persistentvolumeclaims", "0"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeVolumeAttributesClass},
		}, func() runtime.Object {
			claim := claimOf(ptr.To("gold"), "1Gi")
			claim.Spec.VolumeAttributesClassName = ptr.To("silver")
			return claim
		}(), claimOf(ptr.To("gold"), "1Gi"), SpecTimeout(patience)),
	)
})

// service has two ports.
func service(of corev1.ServiceType, allocate *bool) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "service"}, Spec: corev1.ServiceSpec{
		Type: of, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}, AllocateLoadBalancerNodePorts: allocate,
	}}
}

// scoped is a quota of no Pods with a scope.
func scoped(scope corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
	return corev1.ResourceQuotaSpec{Hard: resources("pods", "0"), Scopes: []corev1.ResourceQuotaScope{scope}}
}

// selecting is a quota of no Pods with a scope that has values.
func selecting(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) corev1.ResourceQuotaSpec {
	return corev1.ResourceQuotaSpec{Hard: resources("pods", "0"), ScopeSelector: &corev1.ScopeSelector{
		MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}},
	}}
}

func limitedPod() *corev1.Pod {
	p := pod("limited")
	p.Spec.ActiveDeadlineSeconds = ptr.To[int64](10)
	return p
}

func critical(class string) *corev1.Pod {
	p := pod("critical")
	p.Spec.PriorityClassName = class
	return p
}

func affine(namespaces ...string) *corev1.Pod {
	p := pod("affine")
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{}, TopologyKey: "zone", Namespaces: namespaces,
		}}},
	}}
	return p
}
