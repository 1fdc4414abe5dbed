// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// fetch returns the body of a GET for a path of the server.
func fetch(ctx context.Context, path, accept string) []byte {
	GinkgoHelper()
	body, err := target.kube.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred(), path)
	return body
}

var _ = Describe("an answer", func() {
	It("comes as JSON, YAML or protobuf", func(ctx SpecContext) {
		path := "/api/v1/namespaces/default"
		var fromJSON, fromYAML corev1.Namespace
		Expect(json.Unmarshal(fetch(ctx, path, "application/json"), &fromJSON)).To(Succeed())
		Expect(yaml.UnmarshalStrict(fetch(ctx, path, "application/yaml"), &fromYAML)).To(Succeed())
		Expect(fromYAML).To(Equal(fromJSON))
		Expect(fetch(ctx, path, "application/vnd.kubernetes.protobuf")).To(HavePrefix("k8s\x00"))

		config := rest.CopyConfig(target.config)
		config.ContentType = runtime.ContentTypeProtobuf
		fromProtobuf, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(fromProtobuf.UID).To(Equal(fromJSON.UID))
	}, SpecTimeout(patience))

	It("carries metadata alone when that is wanted", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		createConfigMaps(ctx, ns, 1)
		body := fetch(ctx, "/api/v1/namespaces/"+ns+"/configmaps/cm-0", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
		var object map[string]any
		Expect(json.Unmarshal(body, &object)).To(Succeed())
		Expect(object).To(HaveKeyWithValue("kind", "PartialObjectMetadata"))
		Expect(object).NotTo(HaveKey("data"))
	}, SpecTimeout(patience))

	It("is a table for kubectl", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		_, err := target.kube.CoreV1().Pods(ns).Create(ctx, pod("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var table metav1.Table
		body := fetch(ctx, "/api/v1/namespaces/"+ns+"/pods", "application/json;as=Table;g=meta.k8s.io;v=v1")
		Expect(json.Unmarshal(body, &table)).To(Succeed())
		Expect(table.ColumnDefinitions[0].Name).To(Equal("Name"))
		Expect(table.Rows).To(HaveLen(1))
		Expect(table.Rows[0].Cells[0]).To(Equal("one"))
		Expect(table.Rows[0].Cells).To(HaveLen(len(table.ColumnDefinitions)))
	}, SpecTimeout(patience))

	It("to YAML that is posted is the created object", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		var made corev1.ConfigMap
		body := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  key: \"1\"\n"
		Expect(target.kube.CoreV1().RESTClient().Post().Namespace(ns).Resource("configmaps").
			SetHeader("Content-Type", "application/yaml").Body([]byte(body)).Do(ctx).Into(&made)).To(Succeed())
		Expect(made.Data).To(HaveKeyWithValue("key", "1"))
	}, SpecTimeout(patience))
})
