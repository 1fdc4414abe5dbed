// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
	"github.com/tarn-dev/tarn/pkg/shard"
)

// family is a metric as a page or a cache has it: its type, the labels that it has beside those of all,
// and the values of these.
type family struct {
	kind   string
	labels []string
	values []string
}

// commonLabels are the labels of all metrics, or of all but a few that count reads.
var commonLabels = []string{"cache", "group", "version", "kind", "representation", "cached_namespace"}

// targetLabels are labels that Prometheus gives to a program in a cluster, and that tell one program from another.
var targetLabels = []string{"cluster", "namespace", "job", "pod"}

// TestMetricsPage compares the page with what a running cache exports, in both directions.
func TestMetricsPage(t *testing.T) {
	page, exported := documented(t), exportedMetrics(t)
	for _, name := range slices.Sorted(maps.Keys(page)) {
		if _, there := exported[name]; !there {
			t.Errorf("metrics.md has %s, which the cache does not export", name)
		}
	}
	text, err := os.ReadFile("metrics.md")
	must(t, err)
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		got, want := exported[name], page[name]
		if got.kind != want.kind || !slices.Equal(got.labels, want.labels) {
			t.Errorf("%s is a %s with the labels %q; metrics.md says %q and %q", name, got.kind, got.labels, want.kind, want.labels)
		}
		for _, value := range got.values {
			if !strings.Contains(string(text), "`"+value+"`") {
				t.Errorf("metrics.md does not say what %q is, a value of a label of %s", value, name)
			}
		}
	}
	for _, cause := range []cache.Cause{
		cache.Listing, cache.Forbidden, cache.Unauthorized, cache.NotServed, cache.NotWatchable, cache.Undecodable, cache.TooManyRequests, cache.Unavailable,
		cache.ConnectionRefused, cache.TLS, cache.Timeout, cache.TransformFailed, cache.IndexFailed, cache.Other,
	} {
		if !strings.Contains(string(text), "`"+cause.Label()+"`") || !regexp.MustCompile(`^[a-z_]+$`).MatchString(cause.Label()) {
			t.Errorf("metrics.md does not name the cause %q, or it is no label", cause.Label())
		}
	}
}

// documented returns the metrics of the page.
func documented(t *testing.T) map[string]family {
	t.Helper()
	text, err := os.ReadFile("metrics.md")
	must(t, err)
	found := map[string]family{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(tarn_\\w+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		f := family{kind: row[2]}
		for _, label := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			f.labels = append(f.labels, label[1])
		}
		found[row[1]] = f
	}
	return found
}

// exportedMetrics runs a cache in which all happens that is counted, and returns what it exports.
func exportedMetrics(t *testing.T) map[string]family {
	t.Helper()
	registry := prometheus.NewRegistry()
	exercise(t, registry)
	families, err := registry.Gather()
	must(t, err)
	found := map[string]family{}
	for _, f := range families {
		of := family{kind: strings.ToLower(f.GetType().String())}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if slices.Contains(commonLabels, l.GetName()) {
					continue
				}
				if !slices.Contains(of.labels, l.GetName()) {
					of.labels = append(of.labels, l.GetName())
				}
				of.values = append(of.values, l.GetValue())
			}
		}
		found[f.GetName()] = of
	}
	return found
}

// refusing lets nobody see Secrets.
type refusing struct{ http.RoundTripper }

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasSuffix(request.URL.Path, "/secrets") {
		return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden", Body: http.NoBody, Request: request}, nil
	}
	return r.RoundTripper.RoundTrip(request)
}

// exercise reads from a cache whose metrics go to registry, in all ways.
func exercise(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	env := envtest.Start(t)
	cfg := env.Config()
	transport, err := rest.TransportFor(cfg)
	must(t, err)
	refused, handler := untilItFails(t)
	c, err := cache.With(cache.Tuning{Registerer: registry, MaxBytes: 1})(cfg, cache.Options{
		HTTPClient: &http.Client{Transport: refusing{transport}}, DefaultWatchErrorHandler: handler,
	})
	must(t, err)
	run(t, c)
	ctx := t.Context()
	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	must(t, err)
	added := make(chan string, 1000)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added <- obj.(client.Object).GetName() }})
	must(t, err)
	must(t, c.IndexField(ctx, &corev1.ConfigMap{}, "data.set", func(obj client.Object) []string { return []string{obj.(*corev1.ConfigMap).Data["set"]} }))
	must(t, direct(t, env).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}))
	for name := range added {
		if name == "one" {
			break
		}
	}
	key := client.ObjectKey{Namespace: "default", Name: "one"}
	must(t, c.Get(ctx, key, &corev1.ConfigMap{}))
	for _, opts := range [][]client.ListOption{{}, {client.MatchingFields{"data.set": "x"}}, {client.MatchingLabelsSelector{}}, {client.MatchingLabels{"set": "x"}}} {
		must(t, c.List(ctx, &corev1.ConfigMapList{}, opts...))
	}
	must(t, c.Get(ctx, key, &corev1.ConfigMap{}, client.UnsafeDisableDeepCopy)) // makes what is evicted
	waitForMetric(t, registry, "tarn_cache_evictions_total")
	key.Name = "two"
	if c.Get(ctx, key, &corev1.ConfigMap{}) == nil || c.Get(ctx, key, &corev1.ConfigMap{}, cache.ReadThrough()) == nil {
		t.Error("an object is found that does not exist")
	}
	must(t, c.List(ctx, &corev1.NamespaceList{})) // starts an informer
	refer(t, c, direct(t, env))
	waitForMetric(t, registry, "tarn_cache_wake_ups_total")
	shared, err := cache.With(cache.Tuning{Registerer: registry, Namespaces: labels.Everything(), Shard: newRing(t, cfg)})(cfg, cache.Options{})
	must(t, err)
	run(t, shared)
	waitForMetric(t, registry, "tarn_cache_ring_members")
	_, err = c.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	must(t, err)
	<-refused.Done()
}

// newRing returns a ring that nobody has joined.
func newRing(t *testing.T, cfg *rest.Config) *shard.Ring {
	t.Helper()
	leases, err := coordinationclient.NewForConfig(cfg)
	must(t, err)
	ring, err := shard.New(shard.Options{Ring: "shop", Member: "a", Client: leases, Namespace: "default"})
	must(t, err)
	return ring
}

// refer has a request refer to an object whose metadata alone are watched, and wakes it.
func refer(t *testing.T, c cache.Cache, api client.Client) {
	t.Helper()
	refs, err := lease.NewReferences[string](c)
	must(t, err)
	refs.SetNameWatches(0)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(queue.ShutDown)
	must(t, refs.Source().Start(t.Context(), queue))
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
	template.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	must(t, api.Create(t.Context(), template))
	_, err = refs.Reconciler(reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		return reconcile.Result{}, refs.Get(ctx, client.ObjectKeyFromObject(template), &corev1.PodTemplate{})
	})).Reconcile(t.Context(), "r")
	must(t, err)
	template.Labels = map[string]string{"a": "b"}
	must(t, api.Update(t.Context(), template))
	queue.Get()
}

// waitForMetric waits until a metric has a series.
func waitForMetric(t *testing.T, from prometheus.Gatherer, name string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		families, err := from.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return
			}
		}
	}
	t.Fatalf("there is no %s", name)
}

// run runs a cache until the test ends.
func run(t *testing.T, c cache.Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
}

var (
	metricName  = regexp.MustCompile(`\btarn_\w+`)
	labelsOfIt  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	labelsAfter = regexp.MustCompile(`\b(?:without|ignoring)\s*\(([^)]*)\)`)
	dropping    = regexp.MustCompile(`\b(by|on)\s*\(|\b(sum|max|min|avg|count)\s*\(`)
	suffix      = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// TestExpressions looks at the names and labels in the dashboard and the alerts. Prometheus' own parser
// reads the expressions in .ci/promql, which is a module of its own.
func TestExpressions(t *testing.T) {
	page := documented(t)
	for _, expression := range append(dashboard(t), alerts(t)...) {
		if drops := dropping.FindString(expression); drops != "" {
			t.Errorf("%q drops the labels of the target, which say what program it is: group without labels of ours, in %s", drops, expression)
		}
		labels := slices.Concat([]string{"le"}, targetLabels, commonLabels)
		names := metricName.FindAllString(expression, -1)
		if len(names) == 0 {
			t.Errorf("no metric of ours is in %s", expression)
		}
		for _, name := range names {
			f, known := page[name]
			if base := suffix.ReplaceAllString(name, ""); !known && page[base].kind == "histogram" {
				f, known = page[base], true
			} else if f.kind == "histogram" {
				t.Errorf("%s is a histogram, so it has no series of its own in %s", name, expression)
			}
			if !known {
				t.Errorf("there is no metric %s, which is in %s", name, expression)
			}
			labels = append(labels, f.labels...)
		}
		used := []string{}
		for _, m := range labelsOfIt.FindAllStringSubmatch(expression, -1) {
			used = append(used, m[1])
		}
		for _, m := range labelsAfter.FindAllStringSubmatch(expression, -1) {
			used = append(used, strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' })...)
		}
		for _, label := range used {
			if !slices.Contains(labels, label) {
				t.Errorf("no metric has the label %s in %s", label, expression)
			}
		}
	}
}

// dashboard returns the expressions of the dashboard.
func dashboard(t *testing.T) (expressions []string) {
	t.Helper()
	text, err := os.ReadFile("grafana-dashboard.json")
	must(t, err)
	var board struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	must(t, json.Unmarshal(text, &board))
	variables := []string{}
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
	}
	if want := slices.Concat([]string{"datasource"}, targetLabels, []string{"cache", "kind"}); !slices.Equal(variables, want) {
		t.Errorf("the variables of the dashboard are %q, want %q", variables, want)
	}
	for _, p := range board.Panels {
		if p.Title == "" || p.Description == "" && len(p.Targets) > 0 {
			t.Errorf("a panel has no title or no description: %q", p.Title)
		}
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
			for _, variable := range variables[1:] {
				if selects := variable + `=~"$` + variable + `"`; !strings.Contains(target.Expr, selects) {
					t.Errorf("%q lacks %s in %s", p.Title, selects, target.Expr)
				}
			}
			if !strings.Contains(target.LegendFormat, "{{pod}}") {
				t.Errorf("%q does not say of which Pod a line is: %s", p.Title, target.LegendFormat)
			}
		}
	}
	return expressions
}

// alerts returns the expressions of the alerts, and sees that each says what it means and what to do.
func alerts(t *testing.T) (expressions []string) {
	t.Helper()
	text, err := os.ReadFile("prometheus-alerts.yaml")
	must(t, err)
	trouble, err := os.ReadFile(troublePage)
	must(t, err)
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	must(t, yaml.UnmarshalStrict(text, &rules))
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			_, anchor, found := strings.Cut(r.Annotations["runbook_url"], "docs/when-something-is-wrong.md#")
			if !found || !strings.Contains(headings(string(trouble)), "\n"+anchor+"\n") {
				t.Errorf("the alert %s links to no chapter: %s", r.Alert, r.Annotations["runbook_url"])
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.For == "" || r.Labels["severity"] == "" {
				t.Errorf("the alert %s lacks something: %+v", r.Alert, r)
			}
			expressions = append(expressions, r.Expr)
		}
	}
	if len(expressions) < 6 {
		t.Errorf("there are %d alerts", len(expressions))
	}
	return expressions
}

// headings returns the anchors of a page, one in each line.
func headings(page string) string {
	anchors := "\n"
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		anchors += fmt.Sprintln(strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"))
	}
	return anchors
}
