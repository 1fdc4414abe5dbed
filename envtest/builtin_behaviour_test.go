// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

var _ = Describe("a Service", func() {
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}

	It("gets an address of its own, also when many ask at once", func(ctx SpecContext) {
		services := target.kube.CoreV1().Services(newNamespace(ctx))
		const n = 20
		made := make([]*corev1.Service, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				defer GinkgoRecover()
				svc := service(fmt.Sprintf("s-%d", i))
				svc.Spec.Type = corev1.ServiceTypeNodePort
				var err error
				made[i], err = services.Create(ctx, svc, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			})
		}
		wg.Wait()
		addresses, ports := map[string]bool{}, map[int32]bool{}
		for _, svc := range made {
			Expect(svc.Spec.ClusterIP).To(HavePrefix("10.0.0."))
			Expect(svc.Spec.ClusterIPs).To(Equal([]string{svc.Spec.ClusterIP}))
			addresses[svc.Spec.ClusterIP] = true
			ports[svc.Spec.Ports[0].NodePort] = true
			// The address range is small: give it back at once.
			Expect(services.Delete(ctx, svc.Name, metav1.DeleteOptions{})).To(Succeed())
		}
		Expect(addresses).To(HaveLen(n))
		Expect(ports).To(HaveLen(n))
	}, SpecTimeout(patience))

	It("keeps its address when a manifest without it is put", func(ctx SpecContext) {
		services := target.kube.CoreV1().Services(newNamespace(ctx))
		created, err := services.Create(ctx, service("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		again := service("one")
		again.Spec.Ports[0].Port = 81
		updated, err := services.Update(ctx, again, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Spec.ClusterIP).To(Equal(created.Spec.ClusterIP))

		_, err = services.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"clusterIP":"10.0.0.5"}}`), metav1.PatchOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)

		taken := service("two")
		taken.Spec.ClusterIP = created.Spec.ClusterIP
		_, err = services.Create(ctx, taken, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("already allocated")))
		Expect(services.Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
		reused, err := services.Create(ctx, taken, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(reused.Spec.ClusterIP).To(Equal(created.Spec.ClusterIP))
	}, SpecTimeout(patience))

	It("has no address when it wants none, and gets one when it changes its mind", func(ctx SpecContext) {
		services := target.kube.CoreV1().Services(newNamespace(ctx))
		headless := service("headless")
		headless.Spec.ClusterIP = corev1.ClusterIPNone
		headless, err := services.Create(ctx, headless, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(headless.Spec.ClusterIPs).To(Equal([]string{corev1.ClusterIPNone}))

		external := service("external")
		external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		external, err = services.Create(ctx, external, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(external.Spec.ClusterIP).To(BeEmpty())
		external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeClusterIP, ""
		external, err = services.Update(ctx, external, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(external.Spec.ClusterIP).To(HavePrefix("10.0.0."))
	}, SpecTimeout(patience))
})

var _ = Describe("a Pod", func() {
	It("is put on a node once", func(ctx SpecContext) {
		pods := target.kube.CoreV1().Pods(newNamespace(ctx))
		_, err := pods.Create(ctx, pod("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
		Expect(pods.Bind(ctx, binding, metav1.CreateOptions{})).To(Succeed())
		bound, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-1"})
		Expect(err).NotTo(HaveOccurred())
		Expect(bound.Items).To(HaveLen(1))
		Expect(bound.Items[0].Status.Conditions).To(ContainElement(HaveField("Type", corev1.PodScheduled)))
		Expect(apierrors.IsConflict(pods.Bind(ctx, binding, metav1.CreateOptions{}))).To(BeTrue())
	}, SpecTimeout(patience))

	It("keeps its spec, but not its images", func(ctx SpecContext) {
		pods := target.kube.CoreV1().Pods(newNamespace(ctx))
		created, err := pods.Create(ctx, pod("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		other := created.DeepCopy()
		other.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err = pods.Update(ctx, other, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		other = created.DeepCopy()
		other.Spec.Containers[0].Image = "example.com/image:2"
		updated, err := pods.Update(ctx, other, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Generation).To(Equal(created.Generation + 1))

		updated.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "example.com/debug"},
		}}
		debugged, err := pods.UpdateEphemeralContainers(ctx, "one", updated, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(debugged.Spec.EphemeralContainers).To(HaveLen(1))
		Expect(debugged.Generation).To(Equal(updated.Generation + 1))
	}, SpecTimeout(patience))

	It("is evicted as far as its disruption budget allows", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		pods, budgets := target.kube.CoreV1().Pods(namespace), target.kube.PolicyV1().PodDisruptionBudgets(namespace)
		for _, name := range []string{"one", "two"} {
			p := pod(name)
			p.Labels = map[string]string{"app": "guarded"}
			p, err := pods.Create(ctx, p, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		one := intstr.FromInt32(1)
		budget, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "budget"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2,
		}
		_, err = budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())

		evict := func(name string) error {
			return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		Expect(evict("one")).To(Succeed())
		_, err = pods.Get(ctx, "one", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		err = evict("two")
		Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)).To(BeTrue())
	}, SpecTimeout(patience))
})

var _ = Describe("an Event", func() {
	It("is one object in two API groups", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		created, err := target.kube.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "one"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "p"},
			Reason:         "Tested", Message: "hello", Type: corev1.EventTypeNormal,
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		list, err := target.kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=p,reason=Tested"})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))
		Expect(list.Items[0].UID).To(Equal(created.UID))
		Expect(list.Items[0].Note).To(Equal("hello"))

		w, err := target.kube.CoreV1().Events(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		_, err = target.kube.EventsV1().Events(namespace).Create(ctx, &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "two"}, EventTime: metav1.NowMicro(), ReportingController: "example.com/c",
			ReportingInstance: "i", Action: "Test", Reason: "Tested", Type: corev1.EventTypeNormal, Note: "from the other side",
			Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "p"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		seen := next(ctx, w).Object.(*corev1.Event)
		Expect(seen.Message).To(Equal("from the other side"))
		Expect(seen.InvolvedObject.Name).To(Equal("p"))
	}, SpecTimeout(patience))
})

var _ = Describe("content", func() {
	It("of Secrets is folded, and frozen when it is immutable", func(ctx SpecContext) {
		secrets := target.kube.CoreV1().Secrets(newNamespace(ctx))
		immutable := true
		secret, err := secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string][]byte{"a": []byte("1"), "b": []byte("1")},
			StringData: map[string]string{"b": "2"}, Immutable: &immutable,
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(secret.Type).To(Equal(corev1.SecretTypeOpaque))
		Expect(secret.StringData).To(BeEmpty())
		Expect(secret.Data).To(Equal(map[string][]byte{"a": []byte("1"), "b": []byte("2")}))
		secret.Data["a"] = []byte("3")
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})

var _ = Describe("a field selector", func() {
	for _, known := range []struct{ resource, selector string }{
		{"pods", "spec.nodeName=a,spec.restartPolicy=Always,spec.schedulerName=a,spec.serviceAccountName=a,spec.hostNetwork=true," +
			"status.phase=Running,status.podIP=10.1.1.1,status.nominatedNodeName=a,metadata.namespace=a"},
		{"nodes", "spec.unschedulable=true"},
		{"namespaces", "status.phase=Terminating"},
		{"secrets", "type=none"},
		{"services", "spec.clusterIP=None,spec.type=NodePort"},
		{"replicationcontrollers", "status.replicas=7"},
		{"batch/v1 jobs", "status.successful=7"},
		{"events", "involvedObject.kind=a,involvedObject.namespace=a,involvedObject.name=a,involvedObject.uid=a,involvedObject.apiVersion=a," +
			"involvedObject.resourceVersion=a,involvedObject.fieldPath=a,reason=a,reportingComponent=a,source=a,type=a"},
		{"events.k8s.io/v1 events", "regarding.kind=a,regarding.namespace=a,regarding.name=a,regarding.uid=a,reason=a,reportingController=a,type=a"},
	} {
		It("knows the fields of "+known.resource, func(ctx SpecContext) {
			version, name, ok := strings.Cut(known.resource, " ")
			if !ok {
				version, name = "v1", known.resource
			}
			gv, err := schema.ParseGroupVersion(version)
			Expect(err).NotTo(HaveOccurred())
			objects := target.dyn.Resource(gv.WithResource(name))
			for _, one := range strings.Split(known.selector, ",") {
				_, err := objects.List(ctx, metav1.ListOptions{FieldSelector: one})
				Expect(err).NotTo(HaveOccurred(), one)
			}
			_, err = objects.List(ctx, metav1.ListOptions{FieldSelector: "spec.nobodyKnows=a"})
			Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		}, SpecTimeout(patience))
	}

	It("finds what it says", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		secrets := target.kube.CoreV1().Secrets(namespace)
		for name, kind := range map[string]corev1.SecretType{"a": "example.com/a", "b": "example.com/b"} {
			_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		found, err := secrets.List(ctx, metav1.ListOptions{FieldSelector: "type=example.com/b"})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Items).To(ConsistOf(HaveField("Name", "b")))
		found, err = secrets.List(ctx, metav1.ListOptions{FieldSelector: "type!=example.com/b,metadata.name=a"})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Items).To(ConsistOf(HaveField("Name", "a")))
	}, SpecTimeout(patience))
})

var _ = Describe("an invalid object", func() {
	for _, bad := range []struct {
		gvr     schema.GroupVersionResource
		kind    string
		content string
		field   string // what the error names
	}{
		{resource("", "v1", "pods"), "Pod", `{"spec":{"containers":[]}}`, "spec.containers"},
		{resource("", "v1", "pods"), "Pod", `{"spec":{"containers":[{"name":"a"}]}}`, "spec.containers[0].image"},
		{resource("", "v1", "pods"), "Pod", `{"spec":{"containers":[{"name":"A_","image":"a"}]}}`, "spec.containers[0].name"},
		{resource("", "v1", "pods"), "Pod", `{"metadata":{"labels":{"a b":"c"}},"spec":` + podSpec + `}`, "metadata.labels"},
		{resource("", "v1", "services"), "Service", `{"spec":{}}`, "spec.ports"},
		{resource("", "v1", "services"), "Service", `{"spec":{"ports":[{"port":1},{"port":2}]}}`, "spec.ports[0].name"},
		{resource("", "v1", "configmaps"), "ConfigMap", `{"data":{"a b":"c"}}`, "data[a b]"},
		{resource("", "v1", "secrets"), "Secret", `{"type":"kubernetes.io/tls"}`, "data[tls.crt]"},
		{resource("", "v1", "persistentvolumeclaims"), "PersistentVolumeClaim", `{"spec":{}}`, "spec.accessModes"},
		{resource("", "v1", "replicationcontrollers"), "ReplicationController", `{"spec":{}}`, "spec.template"},
		{resource("apps", "v1", "deployments"), "Deployment", `{"spec":{"template":` + template + `}}`, "spec.selector"},
		{resource("apps", "v1", "deployments"), "Deployment", `{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":` + template + `}}`, "spec.template.metadata.labels"},
		{resource("apps", "v1", "statefulsets"), "StatefulSet", `{"spec":{"replicas":-1,"selector":` + selector + `,"template":` + template + `}}`, "spec.replicas"},
		{resource("batch", "v1", "jobs"), "Job", `{"spec":{"template":` + template + `}}`, "spec.template.spec.restartPolicy"},
		{resource("batch", "v1", "cronjobs"), "CronJob", `{"spec":{"schedule":"soon","jobTemplate":{"spec":{"template":` + jobTemplate + `}}}}`, "spec.schedule"},
		{resource("autoscaling", "v2", "horizontalpodautoscalers"), "HorizontalPodAutoscaler", `{"spec":{"maxReplicas":0,"scaleTargetRef":{"kind":"a","name":"b"}}}`, "spec.maxReplicas"},
		{resource("networking.k8s.io", "v1", "ingresses"), "Ingress", `{"spec":{"defaultBackend":{"service":{"name":"a"}}}}`, "spec.defaultBackend"},
		{resource("policy", "v1", "poddisruptionbudgets"), "PodDisruptionBudget", `{"spec":{"minAvailable":1,"maxUnavailable":1}}`, "spec"},
		{resource("rbac.authorization.k8s.io", "v1", "rolebindings"), "RoleBinding", `{"roleRef":{"kind":"Other","name":"a"}}`, "roleRef.kind"},
		{resource("rbac.authorization.k8s.io", "v1", "roles"), "Role", `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":[]}]}`, "rules[0].verbs"},
		{resource("coordination.k8s.io", "v1", "leases"), "Lease", `{"spec":{"leaseDurationSeconds":0}}`, "spec.leaseDurationSeconds"},
		{resource("discovery.k8s.io", "v1", "endpointslices"), "EndpointSlice", `{"addressType":"IPv4","endpoints":[{"addresses":[]}]}`, "endpoints[0].addresses"},
	} {
		It("is refused: "+bad.kind+" by "+bad.field, func(ctx SpecContext) {
			obj := &unstructured.Unstructured{}
			Expect(json.Unmarshal([]byte(bad.content), &obj.Object)).To(Succeed())
			obj.SetAPIVersion(bad.gvr.GroupVersion().String())
			obj.SetKind(bad.kind)
			obj.SetName("bad")
			_, err := target.dyn.Resource(bad.gvr).Namespace(newNamespace(ctx)).Create(ctx, obj, metav1.CreateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			var fields []string
			for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
				fields = append(fields, cause.Field)
			}
			Expect(fields).To(ContainElement(bad.field))
		}, SpecTimeout(patience))
	}
})

var _ = Describe("what was decided at creation", func() {
	for _, fixed := range []struct {
		gvr                   schema.GroupVersionResource
		kind, content, change string
	}{
		{resource("apps", "v1", "deployments"), "Deployment", `{"spec":{"selector":` + selector + `,"template":` + template + `}}`,
			`{"spec":{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}}}}}`},
		{resource("apps", "v1", "statefulsets"), "StatefulSet", `{"spec":{"selector":` + selector + `,"template":` + template + `}}`, `{"spec":{"serviceName":"x"}}`},
		{resource("batch", "v1", "jobs"), "Job", `{"spec":{"template":` + jobTemplate + `}}`, `{"spec":{"template":{"metadata":{"labels":{"x":"y"}}}}}`},
		{resource("rbac.authorization.k8s.io", "v1", "rolebindings"), "RoleBinding", `{"roleRef":{"kind":"Role","name":"a"}}`, `{"roleRef":{"name":"b"}}`},
		{resource("", "v1", "persistentvolumeclaims"), "PersistentVolumeClaim",
			`{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`, `{"spec":{"accessModes":["ReadWriteMany"]}}`},
		{resource("discovery.k8s.io", "v1", "endpointslices"), "EndpointSlice", `{"addressType":"IPv4","endpoints":[]}`, `{"addressType":"IPv6"}`},
	} {
		It("stays: "+fixed.kind, func(ctx SpecContext) {
			obj := &unstructured.Unstructured{}
			Expect(json.Unmarshal([]byte(fixed.content), &obj.Object)).To(Succeed())
			obj.SetAPIVersion(fixed.gvr.GroupVersion().String())
			obj.SetKind(fixed.kind)
			obj.SetName("fixed")
			objects := target.dyn.Resource(fixed.gvr).Namespace(newNamespace(ctx))
			_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = objects.Patch(ctx, "fixed", types.MergePatchType, []byte(fixed.change), metav1.PatchOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		}, SpecTimeout(patience))
	}
})

var _ = Describe("the namespace controller", func() {
	It("has the last word on a namespace", func(ctx SpecContext) {
		namespaces := target.kube.CoreV1().Namespaces()
		name := newNamespace(ctx)
		Expect(namespaces.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Expect(namespaces.Delete(ctx, name, metav1.DeleteOptions{})).To(Or(Succeed(), Satisfy(apierrors.IsConflict)))
		Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			ns.Spec.Finalizers = nil
			_, err = namespaces.Finalize(ctx, ns, metav1.UpdateOptions{})
			return err
		})).To(Succeed())
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})
