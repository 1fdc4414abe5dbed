// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// converted returns the definition of Things in two versions, between which a webhook converts.
func converted(server *httptest.Server, path string) *apiextensionsv1.CustomResourceDefinition {
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.converted.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "converted.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"},
					ClientConfig: &apiextensionsv1.WebhookClientConfig{
						URL: ptr.To(server.URL + path), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
					},
				},
			},
		},
	}
}

// convert answers a review: it changes the version alone.
func convert(w http.ResponseWriter, req *http.Request) {
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
		object.SetAPIVersion(review.Request.DesiredAPIVersion)
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: &object})
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

var _ = Describe("a webhook for conversion", func() {
	It("fails, or is not reached", func(ctx SpecContext) {
		server := httptest.NewTLSServer(http.HandlerFunc(convert))
		DeferCleanup(server.Close)
		own := faults.New()
		other := envtest.New(envtest.Options{Faults: own, CRDs: []*apiextensionsv1.CustomResourceDefinition{converted(server, "/convert")}})
		Expect(other.Start(ctx)).To(Succeed())
		DeferCleanup(other.Stop)
		things := func(version string) dynamic.ResourceInterface {
			resource := schema.GroupVersionResource{Group: "converted.example.com", Version: version, Resource: "things"}
			return dynamic.NewForConfigOrDie(other.Config()).Resource(resource).Namespace("default")
		}
		thing := &unstructured.Unstructured{}
		thing.SetAPIVersion("converted.example.com/v1")
		thing.SetKind("Thing")
		thing.SetName("a")
		_, err := things("v1").Create(ctx, thing, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		get := func(ctx context.Context) error {
			_, err := things("v2").Get(ctx, "a", metav1.GetOptions{})
			return err
		}
		Expect(get(ctx)).To(Succeed())

		for want, action := range map[string]faults.Action{
			"it is being moved": faults.Respond(apierrors.NewServiceUnavailable("it is being moved")),
			"connection reset":  faults.DropRequest(),
		} {
			fault, err := own.Inject(faults.Rule{Station: faults.Webhook, Path: "/convert"}, action)
			Expect(err).NotTo(HaveOccurred())
			Expect(get(ctx)).To(MatchError(And(ContainSubstring("conversion webhook"), ContainSubstring(want))))
			Expect(fault.Hits()).To(BeNumerically(">", 0))
			fault.End()
			Expect(get(ctx)).To(Succeed())
		}
		_, err = own.Inject(faults.Rule{Station: faults.Webhook, Path: "/other"}, faults.Respond(errors.New("elsewhere")))
		Expect(err).NotTo(HaveOccurred())
		Expect(get(ctx)).To(Succeed())
	}, SpecTimeout(2*long))
})
