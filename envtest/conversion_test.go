// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// serveConversion answers conversion reviews: it changes the version and notes in a label from which one it came.
func serveConversion() *httptest.Server {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			var object unstructured.Unstructured
			if err := object.UnmarshalJSON(raw.Raw); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			object.SetLabels(map[string]string{"from": object.GroupVersionKind().Version})
			object.SetAPIVersion(review.Request.DesiredAPIVersion)
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: &object})
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	DeferCleanup(server.Close)
	return server
}

var _ = Describe("a custom resource with two versions", func() {
	It("is converted by a webhook", func(ctx SpecContext) {
		const group = "converted.tarn.example.com"
		server := serveConversion()
		crd := widgetCRD(group)
		second := crd.Spec.Versions[0].DeepCopy()
		second.Name, second.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, *second)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: authority(server)},
			},
		}
		createCRD(ctx, crd)
		resource := func(version string) schema.GroupVersionResource {
			return schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}
		}
		ns := newNamespace(ctx)
		_, err := target.dyn.Resource(resource("v1")).Namespace(ns).Create(ctx, widget(group, "one", 2), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		converted, err := target.dyn.Resource(resource("v2")).Namespace(ns).Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(converted.GetAPIVersion()).To(Equal(group + "/v2"))
		Expect(converted.GetLabels()).To(Equal(map[string]string{"from": "v1"}))
		list, err := target.dyn.Resource(resource("v1")).Namespace(ns).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items[0].GetLabels()).To(BeEmpty(), "the stored version needs no conversion")
	}, SpecTimeout(patience))
})
