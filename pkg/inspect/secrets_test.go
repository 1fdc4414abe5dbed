// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

// treasure is a value that must not be seen.
const treasure = "three-hundred-doubloons"

var _ = Describe("Values of Secrets", func() {
	var (
		namespace string
		c         cache.Cache
	)
	secrets := map[string]client.Object{
		"structured":   &corev1.Secret{},
		"unstructured": kindOnly(&unstructured.Unstructured{}),
		"metadata":     kindOnly(&metav1.PartialObjectMetadata{}),
	}
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chest", Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"gold":"` + treasure + `"}}`,
				"backup.example.com/original":                      treasure,
			}},
			StringData: map[string]string{"gold": treasure},
		})
		c = started(cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.SeparateMetadata}}), cfg, cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			DefaultTransform: func(obj any) (any, error) {
				if m := obj.(metav1.Object); m.GetName() == "broken" {
					return nil, errors.New("cannot make anything of " + treasure)
				}
				return obj, nil
			},
		})
		for _, secret := range secrets {
			watched(ctx, c, secret)
		}
		Expect(c.IndexField(ctx, &corev1.Secret{}, "gold", func(obj client.Object) []string {
			return []string{string(obj.(*corev1.Secret).Data["gold"])}
		})).To(Succeed())
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "broken"}})
	})

	// everything returns all that a handler tells of Secrets.
	everything := func(l looking) string {
		GinkgoHelper()
		all := strings.Builder{}
		for _, path := range []string{"/api/v1/overview", "/api/v1/kinds"} {
			all.WriteString(l.text(http.StatusOK, path))
		}
		for representation := range secrets {
			path := "/api/v1/kinds/core/v1/Secret/" + representation
			Eventually(func() any { return l.json(path)["state"] }).Should(HaveKeyWithValue("cause", "transform failed"))
			for _, what := range []string{"", "/events", "/objects", "/explain", "/object?name=chest&namespace=" + namespace} {
				all.WriteString(l.text(http.StatusOK, path+what))
			}
		}
		return all.String()
	}

	It("are in no answer", func() {
		l := look(c, inspect.Options{})
		seen := everything(l)
		Expect(seen).NotTo(ContainSubstring(treasure))
		Expect(seen).NotTo(ContainSubstring(base64.StdEncoding.EncodeToString([]byte(treasure))))
		Expect(seen).To(And(ContainSubstring("gold: (hidden)"), ContainSubstring("last-applied-configuration: (hidden)"), ContainSubstring("type: Opaque")))
	})

	It("cannot be guessed by a selector", func() {
		l := look(c, inspect.Options{})
		path := "/api/v1/kinds/core/v1/Secret/structured"
		for _, what := range []string{"/objects", "/explain"} {
			Expect(l.refused(http.StatusForbidden, path+what, "fieldSelector", "gold="+treasure)).To(ContainSubstring("hidden"))
			l.text(http.StatusOK, path+what, "fieldSelector", "metadata.name=chest", "labelSelector", "!x")
		}
	})

	It("are shown if the program says so", func() {
		l := look(c, inspect.Options{ShowSecrets: true})
		seen := everything(l)
		Expect(seen).To(And(ContainSubstring(treasure), ContainSubstring(base64.StdEncoding.EncodeToString([]byte(treasure)))))
		Expect(namesOf(l.json("/api/v1/kinds/core/v1/Secret/structured/objects", "fieldSelector", "gold="+treasure))).To(Equal([]string{"chest"}))
	})
})

var _ = Describe("A Secret whose metadata a transform has spoilt", func() {
	It("is not quoted by the errors of reads", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chest"}, StringData: map[string]string{"gold": treasure}})
		for _, spoil := range []func(metadata map[string]any){
			func(metadata map[string]any) { metadata["creationTimestamp"] = treasure },
			func(metadata map[string]any) { metadata["deletionTimestamp"] = treasure },
			func(metadata map[string]any) { metadata["generation"] = treasure },
			func(metadata map[string]any) { metadata["labels"] = treasure },
			func(metadata map[string]any) { metadata["ownerReferences"] = []any{treasure} },
		} {
			c := started(cache.New, cfg, cache.Options{
				DefaultNamespaces: map[string]cache.Config{namespace: {}},
				DefaultTransform: func(obj any) (any, error) {
					if secret, ok := obj.(*unstructured.Unstructured); ok {
						spoil(secret.Object["metadata"].(map[string]any))
					}
					return obj, nil
				},
			})
			_, err := c.GetInformer(ctx, kindOnly(&unstructured.Unstructured{}), cache.BlockUntilSynced(false))
			Expect(err).NotTo(HaveOccurred())
			l := look(c, inspect.Options{})
			Eventually(func() any { return l.informer("Secret", "unstructured")["state"].(tree)["phase"] }).ShouldNot(Equal("listing"))
			for _, what := range []string{"", "/events", "/objects", "/explain", "/explain?labelSelector=a", "/objects?labelSelector=a", "/object?name=chest&namespace=" + namespace} {
				answer := l.at(http.MethodGet, "/api/v1/kinds/core/v1/Secret/unstructured"+what)
				body, err := io.ReadAll(answer.Body)
				Expect(err).NotTo(HaveOccurred())
				Expect(string(body)).NotTo(ContainSubstring(treasure), what)
			}
			Expect(l.text(http.StatusOK, "/api/v1/overview")).NotTo(ContainSubstring(treasure))
		}
	})
})

// kindOnly gives an empty object the kind Secret.
func kindOnly[T client.Object](obj T) T {
	obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return obj
}
