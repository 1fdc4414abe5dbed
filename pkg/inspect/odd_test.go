// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

// markup is what a page must not take for a part of itself.
const markup = `<img src=x onerror="document.title='taken'"><script>alert(1)</script>`

var _ = Describe("A cache of an odd shape", func() {
	It("has thousands of namespaces, and answers are bounded", func(ctx SpecContext) {
		const namespaces = 3000
		opts := cache.Options{DefaultNamespaces: map[string]cache.Config{}}
		for n := range namespaces {
			opts.DefaultNamespaces[fmt.Sprintf("odd-%04d", n)] = cache.Config{}
		}
		c, err := cache.New(cfg, opts)
		Expect(err).NotTo(HaveOccurred())
		_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		l := look(c, inspect.Options{})
		all := l.json("/api/v1/overview")
		Expect(all["informers"]).To(Equal(float64(namespaces)))
		Expect(all["kinds"]).To(HaveLen(1))
		one := l.json(configMaps)
		Expect(one["allScopes"]).To(HaveLen(20))
		Expect(one["moreScopes"]).To(Equal(float64(namespaces - 20)))
		names := map[string]bool{}
		for from := 0; from < namespaces; from += 20 {
			for _, scope := range l.json(configMaps, "from", fmt.Sprint(from))["allScopes"].([]any) {
				names[scope.(tree)["namespace"].(string)] = true
			}
			if from == 200 {
				from = namespaces - 220 // not all: each answer reads the figures of all informers
			}
		}
		Expect(names).To(HaveLen(11*20 + 10*20))
		Expect(l.json(configMaps, "from", "9999")["allScopes"]).To(BeEmpty())
		Expect(l.refused(http.StatusBadRequest, configMaps, "from", "-1")).To(ContainSubstring("from"))
		Expect(len(l.text(http.StatusOK, "/api/v1/overview"))).To(BeNumerically("<", 16<<10))
		Expect(len(l.text(http.StatusOK, configMaps))).To(BeNumerically("<", 1<<20))
	})

	It("was closed, and answers all the same", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "one", nil))
		c, err := cache.New(cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		Expect(err).NotTo(HaveOccurred())
		running, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- c.Start(running) }()
		watched(ctx, c, &corev1.ConfigMap{})
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		l := look(c, inspect.Options{})
		l.text(http.StatusOK, configMaps+"/events")
		end()
		Eventually(ended).Should(Receive(Succeed()))
		for _, path := range []string{"/", "/api/v1/overview", "/api/v1/kinds", configMaps, configMaps + "/events", configMaps + "/objects", configMaps + "/explain"} {
			l.text(http.StatusOK, path)
		}
		Expect(l.text(http.StatusOK, configMaps+"/object", "namespace", namespace, "name", "one")).To(ContainSubstring("name: one"))
	})

	It("holds markup, which stays text", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		odd := configMap(namespace, "one", nil)
		odd.Annotations, odd.Data = map[string]string{"text": markup}, map[string]string{"text": markup}
		create(ctx, odd)
		c := started(cache.New, cfg, cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			DefaultTransform: func(obj any) (any, error) {
				if pod, ok := obj.(*corev1.Pod); ok {
					return pod, errors.New(markup)
				}
				return obj, nil
			},
		})
		watched(ctx, c, &corev1.ConfigMap{}, &corev1.Pod{})
		create(ctx, &corev1.Pod{ObjectMeta: configMap(namespace, "two", nil).ObjectMeta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
		l := look(c, inspect.Options{})
		Eventually(func() any { return l.informer("Pod", "structured")["state"].(tree)["message"] }).Should(ContainSubstring(markup))
		for _, path := range []string{"/api/v1/overview", configMaps + "/object?namespace=" + namespace + "&name=one", "/" + strings.ReplaceAll(markup, " ", "%20")} {
			answer := l.at(http.MethodGet, path)
			Expect(answer.Header.Get("Content-Type")).NotTo(ContainSubstring("html"), path)
			Expect(answer.Header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
		}
	})

	It("has long names and markup, which a narrow page shows as text", func(ctx SpecContext) {
		b := openBrowser()
		namespace, long := newNamespace(ctx), strings.Repeat("long", 60)
		odd := configMap(namespace, long, map[string]string{"label": long[:63]})
		odd.Annotations = map[string]string{"text": markup}
		create(ctx, odd)
		absent := &unstructured.Unstructured{}
		absent.SetAPIVersion(long[:60] + ".example.com/v1")
		absent.SetKind("L" + long[:62])
		opts := cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: func(obj any) (any, error) {
			if _, ok := obj.(*corev1.Pod); ok {
				return nil, errors.New(markup)
			}
			return obj, nil
		}}
		c := started(cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Optional: ptr.To(true)}}), cfg, opts)
		watched(ctx, c, &corev1.ConfigMap{}, &corev1.Pod{}, absent)
		create(ctx, &corev1.Pod{ObjectMeta: configMap(namespace, "two", nil).ObjectMeta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
		l := look(c, inspect.Options{})
		Eventually(func() any { return l.informer("ConfigMap", "structured")["objects"] }).Should(Equal(1.0))
		Eventually(func() any { return l.informer("Pod", "structured")["state"].(tree)["phase"] }).Should(Equal("incomplete"))
		page := httptest.NewServer(l.handler)
		DeferCleanup(page.Close)
		asText := func(name string) {
			GinkgoHelper()
			b.picture(name)
			Expect(evaluate[int64](b, `document.documentElement.scrollWidth`)).To(BeNumerically("<=", 390), "only tables scroll")
			Expect(evaluate[int](b, `document.querySelectorAll('img, main script').length`)).To(BeZero())
			Expect(evaluate[string](b, `document.title`)).NotTo(Equal("taken"))
		}
		b.looks(390, 900, "dark")
		b.run(chromedp.Navigate(page.URL), chromedp.WaitVisible(".notes"))
		Expect(b.text(".notes")).To(And(ContainSubstring(markup), Not(ContainSubstring(absent.GetKind()))))
		Expect(b.text("table")).To(ContainSubstring(absent.GetKind()))
		asText("odd-overview")
		b.run(chromedp.Navigate(page.URL+"#/kinds/core/v1/ConfigMap/structured"), chromedp.WaitVisible(`form + div tbody a`))
		asText("odd-kind")
		b.run(chromedp.Focus(`form + div tbody a`), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`pre[aria-label="YAML"]`)) // the middle of the link is beside the screen
		Expect(b.text(`pre[aria-label="YAML"]`)).To(ContainSubstring("<img src=x"))
		asText("odd-object")
		Expect(b.said()).To(BeEmpty())
	}, SpecTimeout(10*patience))

	It("gets a changed continue token, and refuses it or lists", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		for n := range 5 {
			create(ctx, configMap(namespace, fmt.Sprint("map-", n), nil))
		}
		c := started(cache.New, cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		token := l.json(configMaps+"/objects", "limit", "2")["continue"].(string)
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		for range 500 {
			changed := []byte(token)
			for range 1 + random.IntN(3) {
				switch at := random.IntN(len(changed)); random.IntN(3) {
				case 0:
					changed[at] = byte(random.IntN(256))
				case 1:
					changed = changed[:max(1, at)]
				default:
					changed = append(changed, changed[at:]...)
				}
			}
			answer := l.at(http.MethodGet, configMaps+"/objects"+queryOf([]string{"limit", "2", "continue", string(changed)}))
			Expect(answer.StatusCode).To(BeElementOf(http.StatusOK, http.StatusBadRequest, http.StatusGone), "seed %d: %q of %q", seed, changed, token)
		}
		Expect(namesOf(l.json(configMaps+"/objects", "limit", "2", "continue", token))).To(Equal([]string{"map-2", "map-3"}))
	})
})
