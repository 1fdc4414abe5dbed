// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

var _ = Describe("discovery", func() {
	It("is aggregated", func(ctx SpecContext) {
		for path, group := range map[string]string{"/api": "", "/apis": "apps"} {
			var list apidiscoveryv2.APIGroupDiscoveryList
			Expect(json.Unmarshal(fetch(ctx, path, aggregatedJSON), &list)).To(Succeed())
			Expect(list.Kind).To(Equal("APIGroupDiscoveryList"))
			Expect(list.Items).To(ContainElement(HaveField("ObjectMeta.Name", group)))
		}
	}, SpecTimeout(patience))

	It("answers 304 to who knows the document already", func(ctx SpecContext) {
		transport, err := rest.TransportFor(target.config)
		Expect(err).NotTo(HaveOccurred())
		get := func(known string) *http.Response {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(target.config.Host, "/")+"/apis", nil)
			Expect(err).NotTo(HaveOccurred())
			req.Header.Set("Accept", aggregatedJSON)
			req.Header.Set("If-None-Match", known)
			resp, err := transport.RoundTrip(req)
			Expect(err).NotTo(HaveOccurred())
			Expect(resp.Body.Close()).To(Succeed())
			return resp
		}
		first := get("")
		Expect(first.StatusCode).To(Equal(http.StatusOK))
		Expect(get(first.Header.Get("ETag")).StatusCode).To(Equal(http.StatusNotModified))
	}, SpecTimeout(patience))

	It("is there for clients that ask group by group", func(ctx SpecContext) {
		client := discovery.NewDiscoveryClientForConfigOrDie(target.config)
		client.UseLegacyDiscovery = true
		groups, lists, err := client.ServerGroupsAndResources()
		Expect(err).NotTo(HaveOccurred())
		Expect(groups).To(ContainElement(HaveField("Name", "apps")))
		pods, found := find(lists, "v1", "pods")
		Expect(found).To(BeTrue())
		Expect(pods.Namespaced).To(BeTrue())
		Expect(pods.ShortNames).To(ConsistOf("po"))
		Expect(pods.Categories).To(ContainElement("all"))
		Expect(pods.Verbs).To(ConsistOf("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"))
		status, found := find(lists, "apps/v1", "deployments/status")
		Expect(found).To(BeTrue())
		Expect(status.Verbs).To(ConsistOf("get", "patch", "update"))
	}, SpecTimeout(patience))

	It("lets a REST mapper find kinds and short names", func() {
		cached := memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(target.config))
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
		Expect(err).NotTo(HaveOccurred())
		Expect(mapping.Resource).To(Equal(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}))
		short := restmapper.NewShortcutExpander(mapper, cached, nil)
		resource, err := short.ResourceFor(schema.GroupVersionResource{Resource: "deploy"})
		Expect(err).NotTo(HaveOccurred())
		Expect(resource.Resource).To(Equal("deployments"))
	})

	It("names the groups in /apis and the one group that is asked for", func(ctx SpecContext) {
		var list metav1.APIGroupList
		Expect(json.Unmarshal(fetch(ctx, "/apis", "application/json"), &list)).To(Succeed())
		Expect(list.Kind).To(Equal("APIGroupList"))
		var group metav1.APIGroup
		Expect(json.Unmarshal(fetch(ctx, "/apis/apps", "application/json"), &group)).To(Succeed())
		Expect(group.PreferredVersion.GroupVersion).To(Equal("apps/v1"))
	}, SpecTimeout(patience))
})

// find returns a resource of the lists.
func find(lists []*metav1.APIResourceList, gv, name string) (metav1.APIResource, bool) {
	for _, list := range lists {
		for _, r := range list.APIResources {
			if list.GroupVersion == gv && r.Name == name {
				return r, true
			}
		}
	}
	return metav1.APIResource{}, false
}

var _ = Describe("OpenAPI", func() {
	It("version 2 describes kinds and how their lists merge", func(ctx SpecContext) {
		document, err := target.kube.Discovery().OpenAPISchema()
		Expect(err).NotTo(HaveOccurred())
		var found []string
		for _, definition := range document.GetDefinitions().GetAdditionalProperties() {
			found = append(found, definition.GetName())
		}
		Expect(found).To(ContainElements("io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Pod"))
		var spec struct{ Definitions map[string]json.RawMessage }
		Expect(json.Unmarshal(fetch(ctx, "/openapi/v2", "application/json"), &spec)).To(Succeed())
		Expect(string(spec.Definitions["io.k8s.api.core.v1.PodSpec"])).To(ContainSubstring(`"x-kubernetes-patch-merge-key":"name"`))
	}, SpecTimeout(patience))

	It("version 3 describes each group version", func(ctx SpecContext) {
		paths, err := target.kube.Discovery().OpenAPIV3().Paths()
		Expect(err).NotTo(HaveOccurred())
		Expect(paths).To(HaveKey("api/v1"))
		Expect(paths).To(HaveKey("apis/apps/v1"))
		schema, err := paths["apis/apps/v1"].Schema("application/json")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(schema)).To(ContainSubstring(`"io.k8s.api.apps.v1.Deployment"`))
	}, SpecTimeout(patience))
})

var _ = Describe("the server", func() {
	It("is healthy, live and ready", func(ctx SpecContext) {
		for _, path := range []string{
			"/healthz", "/livez", "/readyz", "/readyz/poststarthook/rbac/bootstrap-roles",
			"/readyz/poststarthook/scheduling/bootstrap-system-priority-classes", "/readyz/poststarthook/start-system-namespaces-controller",
		} {
			Expect(string(fetch(ctx, path, "*/*"))).To(Equal("ok"), path)
		}
	}, SpecTimeout(patience))

	It("tells its version", func() {
		info, err := target.kube.Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Major).To(Equal("1"))
		Expect(info.GitVersion).To(HavePrefix("v1." + info.Minor))
	})

	It("has the system namespaces and the Service kubernetes", func(ctx SpecContext) {
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			ns, err := target.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(string(ns.Status.Phase)).To(Equal("Active"))
		}
		service, err := target.kube.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(service.Spec.ClusterIP).To(Equal("10.0.0.1"))
		Expect(service.Spec.Ports).To(ConsistOf(And(HaveField("Name", "https"), HaveField("Port", BeEquivalentTo(443)))))
	}, SpecTimeout(patience))
})
