// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/ptr"
)

// apiServices is a client of the suite's server.
func apiServices() apiregistrationclient.APIServiceInterface {
	GinkgoHelper()
	client, err := aggregatorclient.NewForConfig(target.config)
	Expect(err).NotTo(HaveOccurred())
	return client.ApiregistrationV1().APIServices()
}

// extension is an API server of one resource, things. It has one thing. It believes what the server in front says of users.
type extension struct {
	*httptest.Server
	group string

	mu    sync.Mutex
	asked []http.Header         // guarded by mu: of requests for things
	shown [][]*x509.Certificate // guarded by mu: by client
}

// serveExtension starts one for a group of its own, and an APIService that leads to it, and returns when it is available.
func serveExtension(ctx context.Context, namespace string) *extension {
	GinkgoHelper()
	e := newExtension(namespace, "127.0.0.1")
	e.lead(ctx, namespace, &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, e.port())
	return e
}

// newExtension starts an extension on an address of this machine.
func newExtension(namespace, address string) *extension {
	GinkgoHelper()
	e := &extension{group: namespace + ".example.com"}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(e.serve))
	Expect(e.Listener.Close()).To(Succeed())
	var err error
	e.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
	Expect(err).NotTo(HaveOccurred())
	e.TLS = &tls.Config{Certificates: []tls.Certificate{certificateFor("extension." + namespace + ".svc")}, ClientAuth: tls.RequestClientCert}
	e.StartTLS()
	DeferCleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

// port is where it listens.
func (e *extension) port() int32 {
	GinkgoHelper()
	_, port, err := net.SplitHostPort(e.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(port, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	return int32(number)
}

// lead creates the Service, and the APIService that leads to a port of it, and returns when the extension is available.
func (e *extension) lead(ctx context.Context, namespace string, service *corev1.Service, port int32) {
	GinkgoHelper()
	service.Name = "extension"
	_, err := target.kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = apiServices().Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + e.group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: e.group, Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, CABundle: authority(e.Server),
			Service: &apiregistrationv1.ServiceReference{Namespace: namespace, Name: "extension", Port: &port},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		err := apiServices().Delete(ctx, "v1."+e.group, metav1.DeleteOptions{})
		Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Eventually(func() bool { return offers(e.group) }).WithContext(ctx).WithTimeout(patience).Should(BeFalse())
	})
	Eventually(ctx, func(g Gomega) {
		service, err := apiServices().Get(ctx, "v1."+e.group, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available)).To(BeTrue(), "%v", service.Status.Conditions)
		_, err = target.dyn.Resource(e.things()).Namespace(namespace).List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred()) // the server itself learns a little later that it is available
	}).WithPolling(fast).Should(Succeed())
}

// offers says whether discovery has a group.
func offers(group string) bool {
	GinkgoHelper()
	groups, err := discovery.NewDiscoveryClientForConfigOrDie(target.config).ServerGroups()
	Expect(err).NotTo(HaveOccurred())
	for _, known := range groups.Groups {
		if known.Name == group {
			return true
		}
	}
	return false
}

func (e *extension) things() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: e.group, Version: "v1", Resource: "things"}
}

func (e *extension) serve(w http.ResponseWriter, req *http.Request) {
	gv := e.group + "/v1"
	thing := map[string]any{"apiVersion": gv, "kind": "Thing", "metadata": map[string]any{"name": "one", "namespace": "default", "resourceVersion": "1"}}
	var answer any
	switch path := req.URL.Path; {
	case path == "/apis/"+gv:
		answer = metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv,
			APIResources: []metav1.APIResource{{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"get", "list", "watch"}}},
		}
	case path == "/openapi/v2":
		answer = json.RawMessage(`{"swagger":"2.0","info":{"title":"extension","version":"1"},"paths":{"/apis/` + gv + `/things":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/com.example.Thing"}}}}}},` +
			`"definitions":{"com.example.Thing":{"type":"object","x-kubernetes-group-version-kind":[{"group":"` + e.group + `","version":"v1","kind":"Thing"}]}}}`)
	case path == "/openapi/v3":
		answer = json.RawMessage(`{"paths":{"apis/` + gv + `":{"serverRelativeURL":"/openapi/v3/apis/` + gv + `?hash=1"}}}`)
	case path == "/openapi/v3/apis/"+gv:
		answer = json.RawMessage(`{"openapi":"3.0.0","info":{"title":"extension","version":"1"},"paths":{"/apis/` + gv + `/things":{}}}`)
	case strings.HasPrefix(path, "/apis/"+gv+"/") && strings.HasSuffix(path, "/things"):
		e.mu.Lock()
		e.asked, e.shown = append(e.asked, req.Header), append(e.shown, req.TLS.PeerCertificates)
		e.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if req.URL.Query().Get("watch") == "true" {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": thing})
			w.(http.Flusher).Flush()
			<-req.Context().Done()
			return
		}
		answer = map[string]any{"apiVersion": gv, "kind": "ThingList", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{thing}}
	default:
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// last is the last request for things.
func (e *extension) last() (http.Header, []*x509.Certificate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[len(e.asked)-1], e.shown[len(e.shown)-1]
}

var _ = Describe("the APIServices of the server", func() {
	It("are those of the built-in groups, in their order", func(ctx SpecContext) {
		list, err := apiServices().List(ctx, metav1.ListOptions{LabelSelector: "kube-aggregator.kubernetes.io/automanaged=onstart"})
		Expect(err).NotTo(HaveOccurred())
		found := map[string]string{}
		for i := range list.Items {
			service := &list.Items[i]
			found[service.Name] = fmt.Sprint(service.Spec.GroupPriorityMinimum, " ", service.Spec.VersionPriority)
			Expect(service.Spec.Service).To(BeNil())
			condition := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
			Expect(condition.Status).To(Equal(apiregistrationv1.ConditionTrue))
			Expect(condition.Reason).To(Equal("Local"))
			Expect(service.ManagedFields).To(ContainElement(HaveField("Manager", "kube-apiserver")))
		}
		Expect(found).To(Equal(map[string]string{
			"v1.": "18000 1", "v1.admissionregistration.k8s.io": "16700 15", "v1.apiextensions.k8s.io": "16700 15", "v1.apps": "17800 15",
			"v1.authentication.k8s.io": "17700 15", "v1.authorization.k8s.io": "17600 15", "v1.autoscaling": "17500 15", "v1.batch": "17400 15",
			"v1.certificates.k8s.io": "17300 15", "v1.coordination.k8s.io": "16500 15", "v1.discovery.k8s.io": "16200 15", "v1.events.k8s.io": "17750 15",
			"v1.flowcontrol.apiserver.k8s.io": "16100 21", "v1.networking.k8s.io": "17200 15", "v1.node.k8s.io": "16300 15", "v1.policy": "17100 15",
			"v1.rbac.authorization.k8s.io": "17000 15", "v1.resource.k8s.io": "16200 21", "v1.scheduling.k8s.io": "16600 15",
			"v1.storage.k8s.io": "16800 15", "v2.autoscaling": "17500 30",
		}))

		By("asking for the groups, of which CRDs have the last")
		groups, err := discovery.NewDiscoveryClientForConfigOrDie(target.config).ServerGroups()
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, group := range groups.Groups {
			names = append(names, group.Name)
		}
		Expect(names[:21]).To(Equal([]string{
			"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch",
			"certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io",
			"apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
			"flowcontrol.apiserver.k8s.io",
		}))
	}, SpecTimeout(patience))

	It("come and go with CRDs", func(ctx SpecContext) {
		crds := crdclient.NewForConfigOrDie(target.config).ApiextensionsV1().CustomResourceDefinitions()
		group := newNamespace(ctx) + ".example.com"
		version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
			return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
			}}
		}
		_, err := crds.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextensionsv1.NamespaceScoped,
				Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { _ = crds.Delete(ctx, "widgets."+group, metav1.DeleteOptions{}) })
		var made *apiregistrationv1.APIService
		there := func(name string) func() bool {
			return func() bool {
				var err error
				made, err = apiServices().Get(ctx, name+"."+group, metav1.GetOptions{})
				Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
				return err == nil
			}
		}
		Eventually(there("v2")).WithContext(ctx).WithPolling(fast).Should(BeTrue())
		Eventually(there("v1")).WithContext(ctx).WithPolling(fast).Should(BeTrue())
		Expect(made.Labels).To(HaveKeyWithValue("kube-aggregator.kubernetes.io/automanaged", "true"))
		Expect(made.Spec.GroupPriorityMinimum).To(Equal(int32(1000)))
		Expect(made.Spec.VersionPriority).To(Equal(int32(100)))

		By("deleting one, which is made again")
		Expect(apiServices().Delete(ctx, made.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(there("v1")).WithContext(ctx).WithPolling(fast).Should(BeTrue())

		By("serving a version no more")
		_, err = crds.Patch(ctx, "widgets."+group, types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/versions/1"}]`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(there("v2")).WithContext(ctx).WithPolling(fast).Should(BeFalse())
		Expect(crds.Delete(ctx, "widgets."+group, metav1.DeleteOptions{})).To(Succeed())
		Eventually(there("v1")).WithContext(ctx).WithPolling(fast).Should(BeFalse())
	}, SpecTimeout(patience))
})

var _ = Describe("another API server", func() {
	It("answers for its group, and is told who asks", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		e := serveExtension(ctx, namespace)
		list, err := target.dyn.Resource(e.things()).Namespace(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))

		By("asking as somebody without the right, and with it")
		config := rest.CopyConfig(target.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"readers"}, Extra: map[string][]string{"from": {"here"}}}
		jane := dynamic.NewForConfigOrDie(config).Resource(e.things()).Namespace(namespace)
		_, err = jane.List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		permit(ctx, namespace, "jane", rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{e.group}, Resources: []string{"things"}})
		_, err = jane.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		header, shown := e.last()
		Expect(header.Values("X-Remote-User")).To(Equal([]string{"jane"}))
		Expect(header.Values("X-Remote-Group")).To(ConsistOf("readers", "system:authenticated"))
		Expect(header.Values("X-Remote-Extra-From")).To(Equal([]string{"here"}))
		Expect(header).NotTo(HaveKey("Authorization"))
		if target.env == nil {
			return // a real server has no certificate for this unless its flags say so
		}
		trust, err := target.kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(trust.Data).To(HaveKeyWithValue("requestheader-allowed-names", `["front-proxy-client"]`))
		Expect(trust.Data).To(HaveKeyWithValue("requestheader-username-headers", `["X-Remote-User"]`))
		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM([]byte(trust.Data["requestheader-client-ca-file"]))).To(BeTrue())
		Expect(shown).NotTo(BeEmpty())
		_, err = shown[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		Expect(err).NotTo(HaveOccurred())
		Expect(shown[0].Subject.CommonName).To(Equal("front-proxy-client"))
	}, SpecTimeout(patience))

	It("is reached at the endpoints of its Service", func(ctx SpecContext) {
		onlyOurs() // a real server needs a flag for this
		ip, err := utilnet.ChooseHostInterface()
		if err != nil {
			Skip("this machine has no address but the loopback one, which endpoints must not have: " + err.Error())
		}
		namespace := newNamespace(ctx)
		e := newExtension(namespace, ip.String())
		_, err = target.kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "extension", Labels: map[string]string{discoveryv1.LabelServiceName: "extension"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip.String()}}},
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(e.port())}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		e.lead(ctx, namespace, &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}, 443)
		list, err := target.dyn.Resource(e.things()).Namespace(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))
	}, SpecTimeout(patience))

	It("can be watched", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		e := serveExtension(ctx, namespace)
		w, err := target.dyn.Resource(e.things()).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		Expect(next(ctx, w).Type).To(BeEquivalentTo("ADDED"))
	}, SpecTimeout(patience))

	It("is in discovery and OpenAPI as long as it is there", func(ctx SpecContext) {
		e := serveExtension(ctx, newNamespace(ctx))
		client := discovery.NewDiscoveryClientForConfigOrDie(target.config)
		Eventually(ctx, func(g Gomega) {
			resources, err := client.ServerResourcesForGroupVersion(e.group + "/v1")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(resources.APIResources).To(ContainElement(HaveField("Name", "things")))
			_, lists, err := client.ServerGroupsAndResources() // aggregated
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(lists).To(ContainElement(And(HaveField("GroupVersion", e.group+"/v1"), HaveField("APIResources", HaveLen(1)))))
			g.Expect(lists).To(ContainElement(HaveField("GroupVersion", "apps/v1")))
			var group metav1.APIGroup
			g.Expect(json.Unmarshal(fetch(ctx, "/apis/"+e.group, "application/json"), &group)).To(Succeed())
			g.Expect(group.PreferredVersion.Version).To(Equal("v1"))
		}).WithPolling(fast).Should(Succeed())
		var doc struct {
			Paths       map[string]any
			Definitions map[string]any
		}
		Eventually(ctx, func(g Gomega) {
			doc.Paths = nil
			g.Expect(json.Unmarshal(fetch(ctx, "/openapi/v3", "application/json"), &doc)).To(Succeed())
			g.Expect(doc.Paths).To(And(HaveKey("apis/"+e.group+"/v1"), HaveKey("apis/apps/v1")))
		}).WithPolling(fast).Should(Succeed())
		Expect(string(fetch(ctx, "/openapi/v3/apis/"+e.group+"/v1", "application/json"))).To(ContainSubstring("extension"))
		Expect(string(fetch(ctx, "/openapi/v3/apis/apps/v1", "application/json"))).To(ContainSubstring("io.k8s.api.apps.v1.Deployment"))
		Eventually(ctx, func(g Gomega) {
			doc.Paths, doc.Definitions = nil, nil
			g.Expect(json.Unmarshal(fetch(ctx, "/openapi/v2", "application/json"), &doc)).To(Succeed())
			g.Expect(doc.Definitions).To(And(HaveKey("com.example.Thing"), HaveKey("io.k8s.api.apps.v1.Deployment")))
			g.Expect(doc.Paths).To(And(HaveKey("/apis/"+e.group+"/v1/things"), HaveKey("/apis/apps/v1/namespaces/{namespace}/deployments")))
		}).WithPolling(10 * fast).Should(Succeed())

		By("taking it away")
		Expect(apiServices().Delete(ctx, "v1."+e.group, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() bool { return offers(e.group) }).WithContext(ctx).WithPolling(fast).Should(BeFalse())
		Eventually(ctx, func() error {
			_, err := target.dyn.Resource(e.things()).List(ctx, metav1.ListOptions{})
			return err
		}).WithPolling(fast).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}, SpecTimeout(patience))

	DescribeTable("is not available, and says why", func(ctx SpecContext, change func(*corev1.Service), reason string) {
		namespace := newNamespace(ctx)
		group := namespace + ".example.com"
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "extension"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
		change(service)
		_, err := target.kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		made, err := apiServices().Create(ctx, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: group, Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, InsecureSkipTLSVerify: true,
				Service: &apiregistrationv1.ServiceReference{Namespace: namespace, Name: "extension"},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Service.Port).To(HaveValue(Equal(int32(443))))
		DeferCleanup(func(ctx SpecContext) {
			Expect(apiServices().Delete(ctx, "v1."+group, metav1.DeleteOptions{})).To(Succeed())
			Eventually(func() bool { return offers(group) }).WithContext(ctx).WithTimeout(patience).Should(BeFalse())
		})
		Eventually(ctx, func(g Gomega) {
			service, err := apiServices().Get(ctx, "v1."+group, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)).To(HaveValue(And(
				HaveField("Status", apiregistrationv1.ConditionFalse), HaveField("Reason", reason))))
		}).WithPolling(fast).Should(Succeed())
		Eventually(ctx, func() error { // the condition and the route are made by two controllers
			_, err := target.dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).List(ctx, metav1.ListOptions{})
			return err
		}).WithPolling(fast).Should(MatchError(apierrors.IsServiceUnavailable, "IsServiceUnavailable"))
	},
		Entry("no Service", func(s *corev1.Service) { s.Name = "other" }, "ServiceNotFound", SpecTimeout(patience)),
		Entry("another port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 80 }, "ServicePortError", SpecTimeout(patience)),
		Entry("no endpoints", func(*corev1.Service) {}, "EndpointsNotFound", SpecTimeout(patience)),
		Entry("nobody listens", func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
		}, "FailedDiscoveryCheck", SpecTimeout(patience)),
	)
})
