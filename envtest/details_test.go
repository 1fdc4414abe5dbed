// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const asTable = "application/json;as=Table;g=meta.k8s.io;v=v1"

// send makes a request with a body. NAMESPACE in its path and body stands for the namespace of the spec. It returns the code and
// the body of the answer: client-go does not tell all of a refusal. Cluster-scoped objects that it makes are deleted after the
// spec.
func send(ctx context.Context, verb, namespace, path, body string) (int, string) {
	GinkgoHelper()
	replace := strings.NewReplacer("NAMESPACE", namespace).Replace
	req, err := http.NewRequestWithContext(ctx, verb, target.config.Host+replace(path), strings.NewReader(replace(body)))
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", cmp.Or(map[string]string{http.MethodPatch: string(types.MergePatchType)}[verb], "application/json"))
	client, err := rest.HTTPClientFor(target.config)
	Expect(err).NotTo(HaveOccurred())
	answer, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	Expect(err).NotTo(HaveOccurred())
	var made metav1.PartialObjectMetadata
	if answer.StatusCode == http.StatusCreated && json.Unmarshal(content, &made) == nil && made.Namespace == "" {
		DeferCleanup(func(ctx SpecContext) { send(ctx, http.MethodDelete, namespace, path+"/"+made.Name, "") })
	}
	return answer.StatusCode, string(content)
}

func succeed(ctx context.Context, verb, namespace, path, body string) {
	GinkgoHelper()
	code, answer := send(ctx, verb, namespace, path, body)
	Expect(code).To(BeElementOf(http.StatusOK, http.StatusCreated), answer)
}

func post(ctx context.Context, namespace, path, body string) {
	GinkgoHelper()
	succeed(ctx, http.MethodPost, namespace, path, body)
}

// row is how an object is shown, without its age.
func row(ctx context.Context, path string) (columns []metav1.TableColumnDefinition, cells []any) {
	GinkgoHelper()
	var table metav1.Table
	Expect(json.Unmarshal(fetch(ctx, path, asTable), &table)).To(Succeed())
	Expect(table.Rows).To(HaveLen(1))
	for i, column := range table.ColumnDefinitions {
		if column.Name != "Age" && column.Name != "Created At" {
			cells = append(cells, table.Rows[0].Cells[i])
		}
	}
	return table.ColumnDefinitions, cells
}

// headings are the names of columns, with their formats.
func headings(columns []metav1.TableColumnDefinition) []string {
	var all []string
	for _, column := range columns {
		all = append(all, strings.TrimSuffix(column.Name+"="+column.Format, "="))
	}
	return all
}

var _ = Describe("a table", func() {
	const (
		object = `"describedObject":{"kind":"Service","name":"web","apiVersion":"v1"},"metric":{"name":"hits"}`
		cpu    = `"name":"cpu"`
	)
	DescribeTable("shows what an autoscaler wants and measures", func(ctx SpecContext, kind, of, wanted, measured, want string) {
		ns := newNamespace(ctx)
		field := strings.ToLower(kind[:1]) + kind[1:]
		path := "/apis/autoscaling/v2/namespaces/" + ns + "/horizontalpodautoscalers"
		post(ctx, ns, path, fmt.Sprintf(`{"metadata":{"name":"web"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"web","apiVersion":"apps/v1"},"maxReplicas":3,
			"metrics":[{"type":%q,%q:{%s,"target":{%s}}}]}}`, kind, field, of, wanted))
		if measured != "" {
			succeed(ctx, http.MethodPatch, ns, path+"/web/status", fmt.Sprintf(
				`{"status":{"currentReplicas":1,"desiredReplicas":1,"conditions":[],"currentMetrics":[{"type":%q,%q:{%s,"current":{%s}}}]}}`, kind, field, of, measured))
		}
		_, cells := row(ctx, path+"/web")
		Expect(cells[2]).To(Equal(want))
	},
		Entry("of Pods", "Pods", `"metric":{"name":"hits"}`, `"type":"AverageValue","averageValue":"3"`, "", "<unknown>/3", SpecTimeout(patience)),
		Entry("of Pods, measured", "Pods", `"metric":{"name":"hits"}`, `"type":"AverageValue","averageValue":"3"`, `"averageValue":"8"`, "8/3", SpecTimeout(patience)),
		Entry("of Pods, measured otherwise", "Pods", `"metric":{"name":"hits"}`, `"type":"AverageValue","averageValue":"3"`, `"value":"8"`, "<nil>/3", SpecTimeout(patience)),
		Entry("of an object", "Object", object, `"type":"Value","value":"3"`, "", "<unknown>/3", SpecTimeout(patience)),
		Entry("of an object, measured", "Object", object, `"type":"Value","value":"3"`, `"value":"7","averageValue":"8"`, "7/3", SpecTimeout(patience)),
		Entry("of an object on average", "Object", object, `"type":"AverageValue","averageValue":"3"`, `"value":"7","averageValue":"8"`, "8/3 (avg)", SpecTimeout(patience)),
		Entry("from elsewhere", "External", `"metric":{"name":"hits"}`, `"type":"Value","value":"3"`, `"value":"7"`, "7/3", SpecTimeout(patience)),
		Entry("from elsewhere on average", "External", `"metric":{"name":"hits"}`, `"type":"AverageValue","averageValue":"3"`, `"value":"7"`, "<unknown>/3 (avg)", SpecTimeout(patience)),
		Entry("of a container", "ContainerResource", `"container":"c",`+cpu, `"type":"Utilization","averageUtilization":50`, `"averageUtilization":9,"averageValue":"9m"`, "cpu: 9%/50%", SpecTimeout(patience)),
		Entry("of a container, as a number", "ContainerResource", `"container":"c",`+cpu, `"type":"AverageValue","averageValue":"3"`, "", "cpu: <unknown>/3", SpecTimeout(patience)),
		Entry("of a resource, measured as a number alone", "Resource", cpu, `"type":"Utilization","averageUtilization":50`, `"averageValue":"8"`, "cpu: <unknown>/50%", SpecTimeout(patience)),
		Entry("of a resource as a number", "Resource", cpu, `"type":"AverageValue","averageValue":"3"`, `"averageUtilization":9,"averageValue":"9"`, "cpu: 9/3", SpecTimeout(patience)),
	)

	DescribeTable("marks a StorageClass that is a default", func(ctx SpecContext, annotations, mark string) {
		ns := newNamespace(ctx)
		post(ctx, ns, "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"NAMESPACE","annotations":{`+annotations+`}},"provisioner":"example.com/p"}`)
		_, cells := row(ctx, "/apis/storage.k8s.io/v1/storageclasses/"+ns)
		Expect(cells[0]).To(Equal(ns + mark))
	},
		Entry("", `"storageclass.kubernetes.io/is-default-class":"true"`, " (default)", SpecTimeout(patience)),
		Entry("by the annotation of old", `"storageclass.beta.kubernetes.io/is-default-class":"true"`, " (default)", SpecTimeout(patience)),
		Entry("and no other", `"storageclass.kubernetes.io/is-default-class":"True"`, "", SpecTimeout(patience)),
	)

	DescribeTable("has the columns of", func(ctx SpecContext, path, body string, want []string, shown ...any) {
		ns := newNamespace(ctx)
		post(ctx, ns, path, body)
		list := strings.ReplaceAll(path, "NAMESPACE", ns)
		var name metav1.PartialObjectMetadata
		Expect(json.Unmarshal([]byte(strings.ReplaceAll(body, "NAMESPACE", ns)), &name)).To(Succeed())
		columns, cells := row(ctx, list+"/"+name.Name)
		Expect(headings(columns)).To(Equal(want))
		Expect(cells).To(Equal(append([]any{name.Name}, shown...)))
		Expect(columns[0].Description).To(HavePrefix("Name must be unique within a namespace."))
	},
		Entry("a VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments",
			`{"metadata":{"name":"NAMESPACE"},"spec":{"attacher":"example.com","nodeName":"n","source":{"persistentVolumeName":"pv"}}}`,
			[]string{"Name=name", "Attacher=name", "PV", "Node", "Attached", "Age"}, "example.com", "pv", "n", false, SpecTimeout(patience)),
		Entry("a CSIStorageCapacity", "/apis/storage.k8s.io/v1/namespaces/NAMESPACE/csistoragecapacities",
			`{"metadata":{"name":"NAMESPACE"},"storageClassName":"fast","capacity":"1Gi"}`, []string{"Name=name", "Created At"}, SpecTimeout(patience)),
		Entry("an IPAddress", "/apis/networking.k8s.io/v1/ipaddresses",
			`{"metadata":{"name":"192.168.77.1"},"spec":{"parentRef":{"resource":"services","namespace":"default","name":"s"}}}`,
			[]string{"Name=name", "ParentRef"}, "services/default/s", SpecTimeout(patience)),
	)
})

var _ = Describe("a refusal", func() {
	DescribeTable("has the details of", func(ctx SpecContext, verb, path, body string, want metav1.StatusDetails) {
		ns := newNamespace(ctx)
		post(ctx, ns, "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
			`{"metadata":{"name":"claim"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
		running, err := target.kube.CoreV1().Pods(ns).Create(ctx, pod("web"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		succeed(ctx, http.MethodPatch, ns, "/api/v1/namespaces/NAMESPACE/pods/web/status", `{"status":{"phase":"Running"}}`)
		post(ctx, ns, "/apis/policy/v1/namespaces/NAMESPACE/poddisruptionbudgets",
			`{"metadata":{"name":"web"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"`+running.Name+`"}}}}`)
		_, answer := send(ctx, verb, ns, path, body)
		var got metav1.Status
		Expect(json.Unmarshal([]byte(answer), &got)).To(Succeed())
		Expect(got.Details).NotTo(BeNil(), answer)
		for i := range got.Details.Causes {
			got.Details.Causes[i].Message = ""
		}
		Expect(*got.Details).To(Equal(want), answer)
	},
		Entry("an eviction that a budget does not allow", http.MethodPost, "/api/v1/namespaces/NAMESPACE/pods/web/eviction",
			`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"}}`,
			metav1.StatusDetails{RetryAfterSeconds: 10, Causes: []metav1.StatusCause{{Type: "DisruptionBudget"}}}, SpecTimeout(patience)),
		Entry("a review", http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{}}`,
			metav1.StatusDetails{Group: "authorization.k8s.io", Causes: []metav1.StatusCause{{Type: "FieldValueInvalid", Field: "spec.resourceAttributes"}}}, SpecTimeout(patience)),
		Entry("a claim in another mode", http.MethodPatch, "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims/claim", `{"spec":{"volumeMode":"Block"}}`,
			metav1.StatusDetails{Name: "claim", Kind: "PersistentVolumeClaim", Causes: []metav1.StatusCause{
				{Type: "FieldValueForbidden", Field: "spec"}, {Type: "FieldValueInvalid", Field: "volumeMode"}}}, SpecTimeout(patience)),
		Entry("an address that is not canonical", http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/NAMESPACE/endpointslices",
			`{"metadata":{"name":"web"},"addressType":"IPv6","endpoints":[{"addresses":["2001:DB8::1"]}]}`,
			metav1.StatusDetails{Name: "web", Group: "discovery.k8s.io", Kind: "EndpointSlice",
				Causes: []metav1.StatusCause{{Type: "FieldValueInvalid", Field: "endpoints[0].addresses[0]"}}}, SpecTimeout(patience)),
	)

	DescribeTable("of a path that nobody serves", func(ctx SpecContext, path, want string) {
		code, answer := send(ctx, http.MethodGet, "", path, "")
		Expect(code).To(Equal(http.StatusNotFound))
		Expect(answer).To(Equal(want))
	},
		Entry(nil, "/nowhere", "404 page not found\n", SpecTimeout(patience)),
		Entry(nil, "/healthz/nope", "404 page not found\n", SpecTimeout(patience)),
		Entry(nil, "/openapi/nope", "404 page not found\n", SpecTimeout(patience)),
		Entry(nil, "/apis/nope.example.com/v1", "404 page not found\n", SpecTimeout(patience)),
		Entry(nil, "/openapi/v3/apis/nope/v1", "", SpecTimeout(patience)),
	)
})

var _ = Describe("the index", func() {
	It("lists groups of other servers that are away", func(ctx SpecContext) {
		group := newNamespace(ctx) + ".example.com"
		post(ctx, group, "/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.NAMESPACE"},"spec":{"group":"NAMESPACE","version":"v1",
			"groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"nobody"}}}`)
		Eventually(func(g Gomega) {
			var index metav1.RootPaths
			g.Expect(json.Unmarshal(fetch(ctx, "/", "application/json"), &index)).To(Succeed())
			g.Expect(index.Paths).To(ContainElements("/api/v1", "/apis/apps", "/apis/"+group, "/apis/"+group+"/v1"))
		}).WithContext(ctx).WithPolling(fast).Should(Succeed())
	}, SpecTimeout(patience))
})
