// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"fmt"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tarn-dev/tarn/envtest"
)

// TestKindsAreAddedToTheGlobalScheme does what suites do when the environment has started: it adds kinds to
// client-go's scheme, which no lock guards, while the server's informers and the CRD server have much to read. The race
// detector finds a server that reads the scheme, and Go's maps often do.
func TestKindsAreAddedToTheGlobalScheme(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env := envtest.New(envtest.Options{CRDDirectoryPaths: []string{filepath.Join("testdata", "crds")}})
	g.Expect(env.Start(ctx)).To(Succeed())
	t.Cleanup(func() { g.Expect(env.Stop()).To(Succeed()) })
	dyn := dynamic.NewForConfigOrDie(env.Config()) // it has a scheme of its own

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				version := schema.GroupVersion{Group: "globals.test", Version: fmt.Sprint("v", 1+i%500)}
				scheme.Scheme.AddKnownTypes(version, &corev1.Pod{})
			}
		}
	}()
	create := func(group, resource, kind, name string, content map[string]any) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: content}
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
		obj.SetName(name)
		made, err := dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Create(ctx, obj, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return made
	}
	for i := range 20 {
		create("", "namespaces", "Namespace", fmt.Sprint("globals-", i), map[string]any{})
		create("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", fmt.Sprint("globals-", i), map[string]any{
			"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{fmt.Sprint("verb-", i)}}},
		})
		create("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", fmt.Sprint("globals-", i), map[string]any{})
	}
	create("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", "globals", map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "globals-19"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}},
	})
	g.Eventually(func() any { // the authorizer's informers have decoded what was written
		review := create("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", "", map[string]any{"spec": map[string]any{
			"user": "jane", "resourceAttributes": map[string]any{"resource": "pods", "verb": "verb-19"},
		}})
		allowed, _, _ := unstructured.NestedBool(review.Object, "status", "allowed")
		return allowed
	}, patience).Should(BeTrue())
	close(stop)
	<-stopped
}
