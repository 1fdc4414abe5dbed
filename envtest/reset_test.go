// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/tarn-dev/tarn/envtest"
)

var _ = Describe("a clean slate", func() {
	It("is what was there when Start returned", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgetCRD("first.example.com")}})
		before, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())

		s.fill(ctx, "one", 3)
		Expect(s.env.InstallCRDs(ctx, widgetCRD("later.example.com"))).To(Succeed())
		for _, group := range []string{"first.example.com", "later.example.com"} {
			object := widget(group, "w", 2)
			object.SetFinalizers([]string{"example.com/never"})
			_, err := s.dyn.Resource(widgetsOf(group)).Namespace("one").Create(ctx, object, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		roles := s.kube.RbacV1().ClusterRoles()
		role, err := roles.Get(ctx, "view", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		role.Labels["changed"] = "yes"
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(roles.Delete(ctx, "edit", metav1.DeleteOptions{})).To(Succeed())
		Expect(s.kube.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{})).To(Succeed())
		Expect(s.kube.CoreV1().Namespaces().Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed(), "it stays, and is terminating")

		Expect(s.env.Reset(ctx)).To(Succeed())
		after, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Len()).To(Equal(before.Len()))
		Expect(after.Bytes()).To(Equal(before.Bytes()))
		role, err = roles.Get(ctx, "view", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(role.Labels).NotTo(HaveKey("changed"))
		_, err = roles.Get(ctx, "edit", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.kube.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		first, err := s.dyn.Resource(widgetsOf("first.example.com")).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(first.Items).To(BeEmpty())
		_, err = s.dyn.Resource(widgetsOf("later.example.com")).List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		_, err = s.kube.Discovery().ServerResourcesForGroupVersion("later.example.com/v1")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		groups, err := s.kube.Discovery().ServerGroups()
		Expect(err).NotTo(HaveOccurred())
		Expect(groups.Groups).NotTo(ContainElement(HaveField("Name", "later.example.com")))
	}, SpecTimeout(patience))

	It("is seen by every informer, and versions never go back", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		observers := s.observers(ctx)
		defaults := s.configMaps(ctx)
		s.fill(ctx, "one", 300)
		full := s.configMaps(ctx)
		for name, seen := range observers {
			Eventually(seen.now).WithContext(ctx).WithPolling(fast).Should(Equal(full), name)
			seen.events()
		}
		Expect(s.env.Reset(ctx)).To(Succeed())
		Expect(s.configMaps(ctx)).To(Equal(defaults))
		for name, seen := range observers {
			Eventually(seen.now).WithContext(ctx).WithPolling(fast).Should(Equal(defaults), name)
			Expect(seen.events()).To(HaveLen(300), name)
			Expect(seen.wrong()).To(BeEmpty(), name)
		}
	}, SpecTimeout(patience))

	It("leaves what shall stay, with its namespace and its CRD", func(ctx SpecContext) {
		const group = "stays.example.com"
		s := newShared(ctx, envtest.Options{})
		Expect(s.env.InstallCRDs(ctx, widgetCRD(group), widgetCRD("goes.example.com"))).To(Succeed())
		for _, ns := range []string{"one", "two", "three"} {
			s.fill(ctx, ns, 2)
		}
		_, err := s.dyn.Resource(widgetsOf(group)).Namespace("two").Create(ctx, widget(group, "w", 2), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.kube.CoreV1().Secrets("three").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		Expect(s.env.Reset(ctx, envtest.KeepNamespaces("two"), envtest.KeepResources(corev1.Resource("secrets")),
			func(resource schema.GroupResource, name types.NamespacedName) bool {
				return resource == corev1.Resource("configmaps") && name.String() == "three/cm-1"
			})).To(Succeed())
		Expect(s.configMaps(ctx)).To(And(HaveLen(4), HaveKey("two/cm-0"), HaveKey("two/cm-1"), HaveKey("three/cm-1")))
		namespaces, err := s.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(namespaces.Items).To(And(ContainElements(HaveField("Name", "two"), HaveField("Name", "three")),
			Not(ContainElement(HaveField("Name", "one")))))
		_, err = s.kube.CoreV1().Secrets("three").Get(ctx, "s", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.dyn.Resource(widgetsOf(group)).Namespace("two").Get(ctx, "w", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.dyn.Resource(widgetsOf("goes.example.com")).List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)

		Expect(s.env.Reset(ctx, envtest.KeepCRDs())).To(Succeed())
		left, err := s.dyn.Resource(widgetsOf(group)).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(left.Items).To(BeEmpty())
	}, SpecTimeout(patience))

	It("holds for the next request", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		config, err := s.env.AddUser("jane")
		Expect(err).NotTo(HaveOccurred())
		config.QPS = -1
		jane, hook := kubernetes.NewForConfigOrDie(config), serveWebhook()
		for range 2 {
			s.fill(ctx, "one", 1)
			s.grant(ctx, "jane")
			registerValidating(ctx, s.kube, "tarn-validating", "one", webhookAt(hook))
			s.refuse(ctx, "one")
			service, err := s.kube.CoreV1().Services("one").Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.7", Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() error {
				_, err := jane.CoreV1().ConfigMaps("one").List(ctx, metav1.ListOptions{})
				return err
			}).WithContext(ctx).WithPolling(fast).Should(Succeed())
			for label, says := range map[string]string{"deny": "the webhook says no", "refuse": "the policy says no"} {
				Eventually(func() error {
					_, err := dryCreate(ctx, s.kube, "one", label)
					return err
				}).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring(says)))
			}

			Expect(s.env.Reset(ctx)).To(Succeed())
			_, err = jane.CoreV1().ConfigMaps("one").List(ctx, metav1.ListOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			_, err = s.kube.CoreV1().ConfigMaps("one").Create(ctx, configMap("cm", "1"), metav1.CreateOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			_, err = s.kube.CoreV1().Namespaces().Create(ctx, namespace("one"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, label := range []string{"deny", "refuse"} {
				_, err = dryCreate(ctx, s.kube, "one", label)
				Expect(err).NotTo(HaveOccurred())
			}
			service.ResourceVersion, service.UID = "", ""
			_, err = s.kube.CoreV1().Services("one").Create(ctx, service, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred(), "its address is free")
			Expect(s.env.Reset(ctx)).To(Succeed())
		}
	}, SpecTimeout(2*patience))

	It("lets policies follow their parameters, also when they have begun anew", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		for _, forbidden := range []string{"first", "second", "third"} {
			s.fill(ctx, "one", 0)
			rule := configMap("rule", "1")
			rule.Labels, rule.Data = map[string]string{"rule": ""}, map[string]string{"label": forbidden}
			_, err := s.kube.CoreV1().ConfigMaps("one").Create(ctx, rule, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			s.refuseByRule(ctx, "one")
			refusal := func(label string) error {
				_, err := dryCreate(ctx, s.kube, "one", label)
				return err
			}
			Eventually(refusal).WithArguments(forbidden).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring("the rule says no")))
			Expect(refusal("zeroth")).To(Succeed())
			Expect(s.env.Reset(ctx)).To(Succeed())
		}
	}, SpecTimeout(2*patience))

	It("leaves nothing in a namespace that is gone, whatever writes meanwhile", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		writing, stop := context.WithCancel(ctx)
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := 0; writing.Err() == nil; i++ {
					ns := fmt.Sprintf("w%d-%d", w, i)
					_, _ = s.kube.CoreV1().Namespaces().Create(writing, namespace(ns), metav1.CreateOptions{})
					for range 5 {
						cm := configMap("", "1")
						cm.GenerateName = "cm-"
						_, _ = s.kube.CoreV1().ConfigMaps(ns).Create(writing, cm, metav1.CreateOptions{})
					}
				}
			})
		}
		for range 20 {
			Expect(s.env.Reset(ctx)).To(Succeed())
			namespaces, err := s.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			maps, err := s.kube.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{ResourceVersion: namespaces.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			Expect(err).NotTo(HaveOccurred())
			there := map[string]bool{}
			for _, ns := range namespaces.Items {
				there[ns.Name] = true
			}
			for _, cm := range maps.Items {
				Expect(there).To(HaveKey(cm.Namespace), "of %s", cm.Name)
			}
		}
		stop()
		writers.Wait()
	}, SpecTimeout(2*patience))

	It("refuses the write of a request that began before", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		s.fill(ctx, "one", 1)
		waits, goOn := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(goOn) })
		hook := serveReviews(func(_ string, request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) error {
			if request.Name == "late" {
				close(waits)
				<-goOn
				return nil
			}
			answer.Allowed, answer.Result = false, &metav1.Status{Message: "the webhook says no"}
			return nil
		})
		defer release()
		registerValidating(ctx, s.kube, "tarn-validating", "one", webhookAt(hook))
		Eventually(func() error {
			_, err := dryCreate(ctx, s.kube, "one", "any")
			return err
		}).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring("the webhook says no")))
		created := make(chan error, 1)
		go func() {
			_, err := s.kube.CoreV1().ConfigMaps("one").Create(ctx, configMap("late", "1"), metav1.CreateOptions{})
			created <- err
		}()
		Eventually(waits).WithContext(ctx).Should(BeClosed())
		Expect(s.env.Reset(ctx)).To(Succeed())
		release()
		Expect(apierrors.IsNotFound(<-created)).To(BeTrue(), "client-go has sent it again, and the namespace is gone")
		Expect(s.configMaps(ctx)).NotTo(HaveKey("one/late"))
	}, SpecTimeout(patience))

	It("leaves the APIServices of the server, and no route to another one", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		services := apiregistrationclient.NewForConfigOrDie(s.config).APIServices()
		uids := func() map[string]types.UID {
			GinkgoHelper()
			list, err := services.List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			found := map[string]types.UID{}
			for _, service := range list.Items {
				found[service.Name] = service.UID
			}
			return found
		}
		plain, err := rest.HTTPClientFor(s.config)
		Expect(err).NotTo(HaveOccurred())
		ask := func() int {
			GinkgoHelper()
			answer, err := plain.Get(s.config.Host + "/apis/other.example.com/v1/things")
			Expect(err).NotTo(HaveOccurred())
			defer answer.Body.Close()
			return answer.StatusCode
		}
		own := uids()
		Expect(own).To(HaveKey("v1.apps"))
		_, err = services.Create(ctx, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.other.example.com"},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: "other.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "nowhere"},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ask).WithContext(ctx).WithPolling(fast).Should(Equal(http.StatusServiceUnavailable))
		routed, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			Expect(s.env.Reset(ctx)).To(Succeed())
			Expect(ask()).To(Equal(http.StatusNotFound))
			Expect(uids()).To(Equal(own))
			Expect(s.env.Restore(ctx, routed)).To(Succeed())
			Expect(ask()).To(Equal(http.StatusServiceUnavailable))
		}
	}, SpecTimeout(patience))

	It("is not cleaned up after by the deletion of a CRD that came back", func(ctx SpecContext) {
		const group = "clean.example.com"
		s := newShared(ctx, envtest.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgetCRD(group)}})
		for range 2 {
			s.fillWidgets(ctx, group, 4, 50)
			s.beginDeletion(ctx, group)
			Expect(s.env.Reset(ctx)).To(Succeed())
			s.fillWidgets(ctx, group, 1, 50)
			Expect(s.widgets(ctx, group)).To(HaveLen(50))
			Expect(s.env.Reset(ctx)).To(Succeed())
		}
	}, SpecTimeout(2*patience))

	It("needs an environment that runs", func(ctx SpecContext) {
		onlyOurs()
		env := envtest.New(envtest.Options{})
		Expect(env.Reset(ctx)).To(MatchError(envtest.ErrNotRunning))
		_, err := env.Snapshot(ctx)
		Expect(err).To(MatchError(envtest.ErrNotRunning))
		Expect(env.Restore(ctx, nil)).To(MatchError(envtest.ErrNotRunning))
	}, SpecTimeout(patience))
})

var _ = Describe("a snapshot", func() {
	It("comes back, as often as one likes", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		observers := s.observers(ctx)
		s.fill(ctx, "one", 20)
		uids := s.uids(ctx)
		full, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		maps := s.kube.CoreV1().ConfigMaps("one")
		for range 3 {
			changed, err := maps.Get(ctx, "cm-1", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			changed.Data["key"] = "changed"
			_, err = maps.Update(ctx, changed, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(maps.Delete(ctx, "cm-2", metav1.DeleteOptions{})).To(Succeed())
			Expect(maps.Delete(ctx, "cm-3", metav1.DeleteOptions{})).To(Succeed())
			_, err = maps.Create(ctx, configMap("cm-3", "another"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = maps.Create(ctx, configMap("more", "1"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			untouched := s.configMaps(ctx)["one/cm-4"]
			for name, seen := range observers {
				Eventually(seen.now).WithContext(ctx).WithPolling(fast).Should(Equal(s.configMaps(ctx)), name)
				seen.events()
			}

			Expect(s.env.Restore(ctx, full)).To(Succeed())
			Expect(s.uids(ctx)).To(Equal(uids))
			Expect(s.configMaps(ctx)).To(HaveKeyWithValue("one/cm-4", untouched), "what is the same is not written")
			restored, err := maps.Get(ctx, "cm-1", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(restored.Data).To(HaveKeyWithValue("key", "1"))
			for name, seen := range observers {
				Eventually(seen.now).WithContext(ctx).WithPolling(fast).Should(Equal(s.configMaps(ctx)), name)
				Expect(seen.wrong()).To(BeEmpty(), name)
				Expect(seen.events()).To(ConsistOf("modified one/cm-1", "added one/cm-2", "deleted one/cm-3", "added one/cm-3", "deleted one/more"), name)
			}
		}
	}, SpecTimeout(patience))

	It("has the CRDs of its time, in the versions that were stored", func(ctx SpecContext) {
		const group = "versions.example.com"
		s := newShared(ctx, envtest.Options{})
		crd := widgetCRD(group)
		Expect(s.env.InstallCRDs(ctx, crd)).To(Succeed())
		_, err := s.kube.CoreV1().Namespaces().Create(ctx, namespace("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		old, err := s.dyn.Resource(widgetsOf(group)).Namespace("one").Create(ctx, widget(group, "w", 2), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		before, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())

		for round := range 3 {
			newer := crd.DeepCopy()
			next := *newer.Spec.Versions[0].DeepCopy()
			next.Name = "v9"
			newer.Spec.Versions[0].Storage = false
			newer.Spec.Versions = append(newer.Spec.Versions, next)
			Expect(s.env.InstallCRDs(ctx, newer)).To(Succeed())
			current, err := s.dyn.Resource(widgetsOf(group)).Namespace("one").Get(ctx, "w", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(current.GetUID()).To(Equal(old.GetUID()))
			current.SetLabels(map[string]string{"round": fmt.Sprint(round)})
			_, err = s.dyn.Resource(widgetsOf(group)).Namespace("one").Update(ctx, current, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred(), "it is stored in the new version")
			if round == 2 {
				Expect(s.env.Reset(ctx)).To(Succeed())
			}

			Expect(s.env.Restore(ctx, before)).To(Succeed())
			back, err := s.dyn.Resource(widgetsOf(group)).Namespace("one").Get(ctx, "w", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(back.GetUID()).To(Equal(old.GetUID()))
			Expect(back.GetLabels()).To(BeEmpty())
			_, err = s.dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v9", Resource: "widgets"}).List(ctx, metav1.ListOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			back.SetLabels(map[string]string{"writable": "yes"})
			_, err = s.dyn.Resource(widgetsOf(group)).Namespace("one").Update(ctx, back, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}, SpecTimeout(2*patience))

	It("keeps the objects of a CRD that was being deleted, and lets it be deleted again", func(ctx SpecContext) {
		const group = "deleted.example.com"
		s := newShared(ctx, envtest.Options{})
		Expect(s.env.InstallCRDs(ctx, widgetCRD(group))).To(Succeed())
		s.fillWidgets(ctx, group, 4, 50)
		all := s.widgets(ctx, group)
		before, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		for range 2 {
			s.beginDeletion(ctx, group)
			Expect(s.env.Restore(ctx, before)).To(Succeed())
			Expect(s.widgets(ctx, group)).To(Equal(all))
			object := widget(group, "later", 2)
			_, err := s.dyn.Resource(widgetsOf(group)).Namespace("w0").Create(ctx, object, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(s.widgets(ctx, group)).To(HaveLen(len(all) + 1))

			s.beginDeletion(ctx, group)
			Eventually(func() error {
				_, err := s.dyn.Resource(crdsResource).Get(ctx, "widgets."+group, metav1.GetOptions{})
				return err
			}).WithContext(ctx).WithTimeout(patience).WithPolling(fast).Should(Satisfy(apierrors.IsNotFound))
			Expect(s.env.Restore(ctx, before)).To(Succeed())
			Expect(s.widgets(ctx, group)).To(Equal(all))
		}
	}, SpecTimeout(2*patience))

	It("belongs to one environment", func(ctx SpecContext) {
		one, other := newShared(ctx, envtest.Options{}), newShared(ctx, envtest.Options{})
		snapshot, err := one.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(other.env.Restore(ctx, snapshot)).To(MatchError(envtest.ErrForeignSnapshot))
		Expect(other.env.Restore(ctx, nil)).To(MatchError(envtest.ErrForeignSnapshot))
	}, SpecTimeout(patience))

	It("lets events expire after the time that they had left", func(ctx SpecContext) {
		s := newShared(ctx, envtest.Options{})
		events := s.kube.CoreV1().Events("default")
		_, err := events.Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		snapshot, err := s.env.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.env.Reset(ctx)).To(Succeed())
		_, err = events.Get(ctx, "e", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(s.env.Restore(ctx, snapshot)).To(Succeed())
		_, err = events.Get(ctx, "e", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))
})
