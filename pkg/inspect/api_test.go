// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/pkg/cache"
	tarnclient "github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

const configMaps = "/api/v1/kinds/core/v1/ConfigMap/structured"

// setOf is an index function.
func setOf(obj client.Object) []string { return []string{obj.GetLabels()["set"]} }

var _ = Describe("New", func() {
	It("takes the cache of a manager, and no cache of another make", func() {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{NewCache: cache.New, Metrics: metricsserver.Options{BindAddress: "0"}})
		Expect(err).NotTo(HaveOccurred())
		overview := look(mgr.GetCache(), inspect.Options{}).json("/api/v1/overview")
		Expect(overview).To(And(HaveKeyWithValue("started", false), HaveKeyWithValue("kinds", BeEmpty())))

		other, err := crcache.New(cfg, crcache.Options{})
		Expect(err).NotTo(HaveOccurred())
		for _, c := range []cache.Cache{other, struct{ cache.Cache }{mgr.GetCache()}, nil} {
			_, err = inspect.New(c, inspect.Options{})
			Expect(err).To(MatchError(ContainSubstring("pass a cache as New or With")))
		}
	})
})

var _ = Describe("All answers", func() {
	It("only show, are kept by nobody, and allow no script of others", func() {
		l := look(started(cache.New, cfg, cache.Options{}), inspect.Options{})
		for _, path := range []string{"/", "/app.js", "/style.css", "/icon.svg", "/api/v1/overview", "/api/v1/kinds", "/nothing", configMaps} {
			get, head := l.at(http.MethodGet, path), l.at(http.MethodHead, path)
			Expect(head.StatusCode).To(Equal(get.StatusCode))
			for _, answer := range []*http.Response{get, head} {
				Expect(answer.Header.Get("Cache-Control")).To(Equal("no-store"))
				Expect(answer.Header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
				policy := answer.Header.Get("Content-Security-Policy")
				Expect(policy).To(And(ContainSubstring("default-src 'none'"), ContainSubstring("frame-ancestors 'none'")))
				Expect(policy).NotTo(ContainSubstring("unsafe"))
			}
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
				answer := l.at(method, path)
				Expect(answer.StatusCode).To(Equal(http.StatusMethodNotAllowed))
				Expect(answer.Header.Get("Allow")).To(Equal("GET, HEAD"))
			}
		}
		Expect(l.refused(http.StatusNotFound, "/nothing")).To(ContainSubstring("strip it"))
	})

	It("work under a prefix, with and without a slash at its end", func() {
		h, err := inspect.New(started(cache.New, cfg, cache.Options{}), inspect.Options{})
		Expect(err).NotTo(HaveOccurred())
		mux := http.NewServeMux()
		mux.Handle("/a/cache/", http.StripPrefix("/a/cache", h))
		mux.Handle("/bare", http.StripPrefix("/bare", h))
		server := httptest.NewServer(mux)
		DeferCleanup(server.Close)
		DeferCleanup(http.DefaultClient.CloseIdleConnections)
		answer, err := http.Get(server.URL + "/a/cache/api/v1/overview")
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Body.Close()).To(Succeed())
		Expect(answer.StatusCode).To(Equal(http.StatusOK))
		page := look(started(cache.New, cfg, cache.Options{}), inspect.Options{}).text(http.StatusOK, "/")
		Expect(page).NotTo(MatchRegexp(`(src|href)="(/|http)`), "an address that is not relative")

		bare := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		answer, err = bare.Get(server.URL + "/bare?x=y")
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Body.Close()).To(Succeed())
		to, err := answer.Location()
		Expect(err).NotTo(HaveOccurred())
		Expect(to.Path).To(Equal("/bare/"))
	})
})

var _ = Describe("The overview", func() {
	It("says where each informer is, and why", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "one", nil))
		name, its := newUser(ctx, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}})
		absent := &unstructured.Unstructured{}
		absent.SetAPIVersion("sea.example.com/v1")
		absent.SetKind("Whale")
		c := started(cache.With(cache.Tuning{
			Name: "seen-" + name, TuningByObject: cache.TuningByObject{OnFailure: cache.Isolate},
			ByObject: map[client.Object]cache.TuningByObject{absent: {Optional: ptr.To(true), OnFailure: cache.Isolate}},
		}), its, cache.Options{Mapper: mapper()})
		l := look(c, inspect.Options{})
		watched(ctx, c, &corev1.ConfigMap{}, absent)
		_, err := c.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())

		Eventually(func() any { return l.informer("Pod", "structured")["state"] }).Should(HaveKeyWithValue("phase", "not synced"))
		pods := l.informer("Pod", "structured")["state"]
		Expect(pods).To(And(HaveKeyWithValue("cause", "forbidden"), HaveKeyWithValue("policy", "Isolate"), HaveKey("since")))
		Expect(pods).To(HaveKeyWithValue("manifest", ContainSubstring("kind: ClusterRole")))
		Expect(pods).To(HaveKeyWithValue("message", ContainSubstring("has not synced: forbidden")))
		Expect(l.informer("Whale", "unstructured")["state"]).To(And(HaveKeyWithValue("phase", "dormant"), HaveKeyWithValue("cause", "kind not served")))
		Eventually(func() any { return l.informer("ConfigMap", "structured")["state"] }).Should(HaveKeyWithValue("phase", "synced"))
		maps := l.informer("ConfigMap", "structured")
		Expect(maps).To(And(
			HaveKeyWithValue("resource", "configmaps"), HaveKeyWithValue("path", "kinds/core/v1/ConfigMap/structured"),
			HaveKeyWithValue("objects", BeNumerically(">=", 1)), HaveKeyWithValue("resourceVersion", MatchRegexp(`^\d+$`)),
			HaveKeyWithValue("ageSeconds", BeNumerically("<", patience.Seconds())),
		))
		overview := l.json("/api/v1/overview")
		Expect(overview["phases"]).To(Equal(tree{"synced": 1.0, "not synced": 1.0, "dormant": 1.0}))
		Expect(overview).To(And(HaveKeyWithValue("cache", "seen-"+name), HaveKeyWithValue("informers", 3.0)))
	})

	It("says which bounds in bytes are passed", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "one", nil))
		c := started(cache.With(cache.Tuning{NoMetrics: true, MaxBytes: 1, TuningByObject: cache.TuningByObject{MaxBytes: 1 << 40}}), cfg, cache.Options{})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		Eventually(func() any { return l.json("/api/v1/overview")["over"] }).Should(ConsistOf(MatchRegexp(`^the cache takes \d\.\d MiB, MaxBytes allows 0\.0 MiB`)))
	})

	It("has one line for a kind in several namespaces, and its worst one", func(ctx SpecContext) {
		one, other := newNamespace(ctx), newNamespace(ctx)
		create(ctx, configMap(one, "a", nil), configMap(other, "b", nil), configMap(other, "c", nil))
		c := started(cache.New, cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{one: {}, other: {}}})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		info := l.informer("ConfigMap", "structured")
		Expect(info).To(And(HaveKeyWithValue("scopes", 2.0), HaveKeyWithValue("objects", 3.0), Not(HaveKey("resourceVersion"))))
		Expect(l.json(configMaps)["allScopes"]).To(HaveLen(2))
		Expect(namesOf(l.json(configMaps+"/objects", "namespace", other))).To(ContainElements("b", "c"))
		Expect(l.refused(http.StatusNotFound, configMaps+"/objects", "namespace", "elsewhere")).To(ContainSubstring("does not hold"))
	})

	It("names the read that has started an informer, for all namespaces and in each", func(ctx SpecContext) {
		one, other := newNamespace(ctx), newNamespace(ctx)
		c := started(cache.New, cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{one: {}, other: {}}})
		watched(ctx, c, &corev1.Secret{})
		_, file, line, _ := runtime.Caller(0)
		Expect(c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(other))).To(Succeed())
		watched(ctx, c, &corev1.ConfigMap{}) // in the namespace that is left
		l := look(c, inspect.Options{})
		where := HavePrefix(fmt.Sprintf("%s:%d (github.com/tarn-dev/tarn/pkg/inspect_test.", file, line+1))
		Expect(l.informer("ConfigMap", "structured")).To(HaveKeyWithValue("startedBy", where))
		Expect(l.informer("Secret", "structured")).NotTo(HaveKey("startedBy"))
		Expect(l.json(configMaps)).To(And(HaveKeyWithValue("startedBy", where), HaveKeyWithValue("allScopes", ConsistOf(
			And(HaveKeyWithValue("namespace", one), Not(HaveKey("startedBy"))),
			And(HaveKeyWithValue("namespace", other), HaveKeyWithValue("startedBy", where)),
		))))
	})

	It("names the fields of a kind that are kept", func(ctx SpecContext) {
		c := started(cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {Fields: []string{"data.a", "immutable"}}}}), cfg, cache.Options{})
		watched(ctx, c, &corev1.ConfigMap{})
		watched(ctx, c, &corev1.Secret{})
		l := look(c, inspect.Options{})
		Expect(l.informer("ConfigMap", "structured")).To(HaveKeyWithValue("kept", "data.a, immutable"))
		Expect(l.json(configMaps)).To(HaveKeyWithValue("kept", "data.a, immutable"))
		Expect(l.informer("Secret", "structured")).NotTo(HaveKey("kept"))
	})

	It("says that a kind that has synced cannot follow now", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		traffic := &wire{down: make(chan struct{})}
		c := started(traffic.through(cache.New), cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		state := func() any { return l.informer("ConfigMap", "structured")["state"] }
		Expect(state()).To(HaveKeyWithValue("phase", "synced"))
		close(traffic.down)
		create(ctx, configMap(namespace, "last", nil))
		Eventually(state).Should(And(HaveKeyWithValue("phase", "interrupted"), HaveKeyWithValue("cause", "connection refused")))
	})

	It("shows one of which nothing is known, an informer that the user made", func(ctx SpecContext) {
		c := started(cache.New, cfg, cache.Options{NewInformer: toolscache.NewSharedIndexInformer})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		Expect(l.informer("ConfigMap", "structured")["state"]).To(HaveKeyWithValue("phase", "synced"))
		Expect(l.json(configMaps + "/explain")).To(HaveKeyWithValue("by", "all"))
		Expect(l.json(configMaps + "/events")).To(HaveKeyWithValue("events", BeEmpty()))
	})
})

var _ = Describe("A kind", func() {
	var (
		namespace string
		c         cache.Cache
		l         looking
		traffic   *wire
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		for n := range 40 {
			create(ctx, configMap(namespace, fmt.Sprintf("map-%02d", n), map[string]string{"set": fmt.Sprint(n % 4)}))
		}
		traffic = &wire{}
		c = started(traffic.through(cache.New), cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		Expect(c.IndexField(ctx, &corev1.ConfigMap{}, "set", setOf)).To(Succeed())
		watched(ctx, c, &corev1.ConfigMap{})
		l = look(c, inspect.Options{})
	})

	It("is not found without an informer, and no look asks the API server", func() {
		before := traffic.requests.Load()
		for _, kind := range []string{"core/v1/Pod/structured", "core/v1/ConfigMap/metadata", "apps/v1/Nothing/unstructured"} {
			for _, what := range []string{"", "/objects", "/explain", "/events", "/object?name=x"} {
				Expect(l.refused(http.StatusNotFound, "/api/v1/kinds/"+kind+what)).To(ContainSubstring("starts none"))
			}
		}
		Expect(l.refused(http.StatusBadRequest, "/api/v1/kinds/core/v1/ConfigMap/raw")).To(ContainSubstring("no representation"))
		for _, what := range []string{"", "/objects", "/explain", "/events", "/object?name=map-01&namespace=" + namespace} {
			l.text(http.StatusOK, configMaps+what)
		}
		Expect(l.json("/api/v1/kinds")["kinds"]).To(HaveLen(1))
		Expect(traffic.requests.Load()).To(Equal(before))
	})

	It("lists objects as List does, page by page", func() {
		var names []string
		token, pages := "", 0
		for {
			page := l.json(configMaps+"/objects", "limit", "6", "labelSelector", "set in (1,2)", "continue", token)
			names = append(names, namesOf(page)...)
			Expect(len(page["items"].([]any))).To(BeNumerically("<=", 6))
			pages++
			if token, _ = page["continue"].(string); token == "" {
				break
			}
		}
		Expect(names).To(HaveLen(20))
		Expect(pages).To(Equal(4))
		all := l.json(configMaps+"/objects", "limit", "1")
		Expect(all).To(HaveKeyWithValue("remainingItemCount", 39.0))
		first := l.json(configMaps+"/objects", "fieldSelector", "metadata.name=map-07")["items"].([]any)[0].(tree)
		Expect(first).To(And(HaveKeyWithValue("namespace", namespace), HaveKeyWithValue("labels", tree{"set": "3"}), HaveKey("created"), HaveKey("uid")))
		Expect(first).NotTo(HaveKey("data"))
		Expect(namesOf(l.json(configMaps+"/objects", "fieldSelector", "set=2"))).To(HaveLen(10))

		for query, want := range map[[2]string]string{
			{"labelSelector", "a in"}:   "labelSelector",
			{"fieldSelector", "a"}:      "fieldSelector",
			{"fieldSelector", "data=x"}: "not indexed",
			{"limit", "0"}:              "limit",
			{"limit", "many"}:           "limit",
			{"continue", "nonsense"}:    "continue",
		} {
			Expect(l.refused(http.StatusBadRequest, configMaps+"/objects", query[0], query[1])).To(ContainSubstring(want))
		}
	})

	It("has at most 500 objects in an answer", func(ctx SpecContext) {
		for n := range 480 {
			create(ctx, configMap(namespace, fmt.Sprintf("more-%03d", n), nil))
		}
		Eventually(func() any { return l.informer("ConfigMap", "structured")["objects"] }).Should(Equal(520.0))
		page := l.json(configMaps+"/objects", "limit", "100000")
		Expect(page["items"]).To(HaveLen(500))
		Expect(page).To(HaveKeyWithValue("remainingItemCount", 20.0))
	})

	It("explains selectors", func() {
		for query, want := range map[string]tree{
			"":                                      {"by": "all", "candidates": 40.0, "whole": true},
			"labelSelector=set%3D1":                 {"by": "scan", "candidates": 40.0, "whole": false},
			"fieldSelector=set%3D1":                 {"by": "index", "index": "field:set", "candidates": 10.0, "whole": true},
			"fieldSelector=set%3D1&labelSelector=x": {"by": "index", "index": "field:set", "candidates": 10.0, "whole": false},
			"fieldSelector=metadata.name%3Dmap-01":  {"by": "scan", "candidates": 40.0},
			"fieldSelector=metadata.name%3Dmap-01&namespace=" + namespace: {"by": "key", "candidates": 1.0},
			"fieldSelector=metadata.name%3Dno&namespace=" + namespace:     {"by": "key", "candidates": 0.0},
		} {
			plan := l.json(configMaps + "/explain?" + query)
			for key, value := range want {
				Expect(plan).To(HaveKeyWithValue(key, value), "%s: %s", query, plan)
			}
			Expect(plan["text"]).NotTo(BeEmpty())
		}
		Expect(l.refused(http.StatusBadRequest, configMaps+"/explain", "fieldSelector", "data=x")).To(ContainSubstring("not indexed"))
	})

	It("shows one object as YAML, without managedFields", func() {
		text := l.text(http.StatusOK, configMaps+"/object", "namespace", namespace, "name", "map-05")
		Expect(text).To(And(HavePrefix("apiVersion: v1\n"), ContainSubstring("data:\n  name: map-05\n"), ContainSubstring("kind: ConfigMap\n")))
		Expect(text).NotTo(ContainSubstring("managedFields"))
		Expect(l.refused(http.StatusNotFound, configMaps+"/object", "namespace", namespace, "name", "none")).To(ContainSubstring("holds no ConfigMap"))
		Expect(l.refused(http.StatusBadRequest, configMaps+"/object")).To(ContainSubstring("name: it is missing"))
		Expect(l.refused(http.StatusBadRequest, configMaps+"/object", "name", "map-05")).To(ContainSubstring("namespace: it is missing"))
	})

	It("has the figures of handlers, indexes, events, reads and memory", func(ctx SpecContext) {
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		proceed := make(chan struct{})
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-proceed }})
		Expect(err).NotTo(HaveOccurred())
		create(ctx, configMap(namespace, "new", nil))
		Eventually(func() tree { return l.json(configMaps) }).Should(HaveKeyWithValue("events", HaveKeyWithValue("added", 1.0)))
		handler := func() any { return l.json(configMaps)["handlerList"].([]any)[0] }
		Eventually(handler).Should(And(HaveKeyWithValue("lag", BeNumerically(">", 0)), HaveKeyWithValue("lagSeconds", BeNumerically(">", 0)), HaveKeyWithValue("synced", false)))
		Expect(handler()).To(HaveKeyWithValue("type", "cache.ResourceEventHandlerFuncs"))
		Expect(l.json("/api/v1/overview")["total"]).To(And(HaveKeyWithValue("handlers", 1.0), HaveKeyWithValue("handlerLag", BeNumerically(">", 0))))
		close(proceed)
		Eventually(handler).Should(And(HaveKeyWithValue("lag", 0.0), HaveKeyWithValue("calls", 41.0), HaveKeyWithValue("synced", true)))

		for range 2 {
			Expect(c.List(ctx, &corev1.ConfigMapList{}, client.MatchingFields{"set": "1"})).To(Succeed())
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "new"}, &corev1.ConfigMap{})).To(Succeed())
		}
		detail := l.json(configMaps)
		Expect(detail["indexList"]).To(ConsistOf(And(HaveKeyWithValue("name", "field:set"), HaveKeyWithValue("hits", 2.0), HaveKeyWithValue("pairs", 41.0))))
		Expect(detail["reads"]).To(Equal(tree{"index": 2.0, "key": 2.0}))
		Expect(detail["lists"]).To(Equal(tree{"first": 1.0}))
		Expect(detail["parts"]).To(And(HaveKeyWithValue("flat", BeNumerically(">", 1000)), HaveKeyWithValue("field_indexes", BeNumerically(">", 0))))
		sum := 0.0
		for _, bytes := range detail["parts"].(tree) {
			sum += bytes.(float64)
		}
		Expect(detail["bytes"]).To(Equal(sum))
	})

	It("follows events while somebody looks", func(ctx SpecContext) {
		begin := l.json(configMaps + "/events")
		Expect(begin).To(And(HaveKeyWithValue("events", BeEmpty()), HaveKeyWithValue("newest", 0.0)))
		added := configMap(namespace, "new", nil)
		create(ctx, added)
		added.Data["name"] = "changed"
		Expect(api.Update(ctx, added)).To(Succeed())
		Expect(api.Delete(ctx, added)).To(Succeed())
		types := func() (types []string) {
			for _, e := range l.json(configMaps + "/events")["events"].([]any) {
				Expect(e).To(And(HaveKeyWithValue("name", "new"), HaveKeyWithValue("namespace", namespace)))
				types = append(types, e.(tree)["type"].(string))
			}
			return types
		}
		Eventually(types).Should(Equal([]string{"ADDED", "MODIFIED", "DELETED"}))
		rest := l.json(configMaps+"/events", "after", "2")
		Expect(rest["events"]).To(HaveLen(1))
		Expect(rest["counts"]).To(Equal(tree{"ADDED": 1.0, "MODIFIED": 1.0, "DELETED": 1.0}))
		Expect(l.refused(http.StatusBadRequest, configMaps+"/events", "after", "now")).To(ContainSubstring("after"))
	})
})

var _ = Describe("What lies over a kind", func() {
	It("is shown beside what the watch has brought", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "old", nil))
		traffic := &wire{hold: make(chan struct{})}
		c := started(traffic.through(cache.New), cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		watched(ctx, c, &corev1.ConfigMap{})
		writes, err := tarnclient.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		l := look(c, inspect.Options{})
		Expect(l.json(configMaps)["pendingWrites"]).To(BeEmpty())

		close(traffic.hold)
		Expect(writes.Create(ctx, configMap(namespace, "mine", nil))).To(Succeed())
		Expect(writes.Delete(ctx, configMap(namespace, "old", nil))).To(Succeed())
		var pending []string
		for _, p := range l.json(configMaps)["pendingWrites"].([]any) {
			pending = append(pending, p.(tree)["name"].(string)+" "+p.(tree)["outcome"].(string))
		}
		Expect(pending).To(ConsistOf("mine shown", HavePrefix("old ")))
		Expect(namesOf(l.json(configMaps + "/objects"))).To(And(ContainElement("old"), Not(ContainElement("mine"))))
		Expect(l.text(http.StatusOK, configMaps+"/object", "namespace", namespace, "name", "old")).To(HavePrefix("# A write of this program lies over it"))
	})
})

// newUser adds a user with a right.
func newUser(ctx context.Context, rule rbacv1.PolicyRule) (name string, its *rest.Config) {
	GinkgoHelper()
	name = strings.ToLower(newNamespace(ctx))
	its, err := env.AddUser(name)
	Expect(err).NotTo(HaveOccurred())
	create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})
	return name, its
}

// mapper knows the kinds that a user without a right to discovery reads, but for the absent one.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(scheme.Scheme.PrioritizedVersionsAllGroups())
	for _, kind := range []string{"ConfigMap", "Pod", "Secret"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return m
}
