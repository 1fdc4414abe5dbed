// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package promql_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// kind has the labels that the cache of ConfigMaps of an operator has in each of its metrics.
const kind = `cache="unnamed-1", version="v1", kind="ConfigMap", representation="structured"`

// firing has, for each alert, series that let it fire if one program has them and their quiet form if it does not: a
// metric with its own labels, and two sequences as promtool's unit tests have them, one value a minute.
var firing = map[string][]struct{ metric, own, fires, quiet string }{
	"TarnCacheNotSynced":            {{"tarn_informer_not_synced", `cause="forbidden"`, "1x40", "0x40"}},
	"TarnCacheSyncTakesLong":        {{"tarn_informer_not_synced", `cause="listing"`, "1x40", "0x40"}},
	"TarnCacheStale":                {{"tarn_informer_informers", `phase="stalled"`, "1x40", "0x40"}},
	"TarnCacheHandlerLag":           {{"tarn_informer_handler_lag_seconds", "", "100+60x40", "3x40"}},
	"TarnCacheOwnWritesUnconfirmed": {{"tarn_informer_own_writes_unconfirmed_total", `reason="deadline"`, "0+1x40", "5x40"}},
	"TarnCacheUndecodable":          {{"tarn_informer_not_synced", `cause="undecodable"`, "1x40", "0x40"}},
	"TarnCacheIncomplete":           {{"tarn_informer_incomplete_objects", `cause="transform_failed"`, "2x40", "0x40"}},
	"TarnCacheOverMaxBytes":         {{"tarn_cache_over_max_bytes", "", "1x40", "0x40"}},
	"TarnCacheRelists": {
		{"tarn_informer_lists_total", `reason="expired"`, "0+1x40", "0x40"},
		{"tarn_informer_informers", `phase="synced"`, "1x40", "1x40"},
	},
}

// TestAlertsNameOneProgram evaluates each alert on two Pods of one operator and a Pod of another one that has the same
// cache names. One of them has what the alert is for: the alert fires once, keeps the target's labels, and names the Pod.
func TestAlertsNameOneProgram(t *testing.T) {
	groups, errs := rulefmt.Parse([]byte(read(t, "prometheus-alerts.yaml")), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatalf("Prometheus does not take the file: %v", errs)
	}
	seen := 0
	for _, rule := range groups.Groups[0].Rules {
		t.Run(rule.Alert, func(t *testing.T) {
			seen++
			if firing[rule.Alert] == nil {
				t.Fatal("firing has no series for this alert")
			}
			for _, by := range []string{"", "north"} { // informers of one namespace, or all together
				alerts := evaluate(t, rule.Expr, series(t, rule.Alert, by))
				if len(alerts) != 1 {
					t.Fatalf("%d alerts, want one: %v", len(alerts), alerts)
				}
				checkAlert(t, rule, alerts[0])
			}
		})
	}
	if seen != len(firing) {
		t.Errorf("there are %d alerts, and series for %d", seen, len(firing))
	}
}

// bad are the labels of the target that has what alerts are for.
var bad = map[string]string{"cluster": "east", "namespace": "shop", "job": "orders", "pod": "orders-2", "instance": "10.0.0.2:8080"}

func checkAlert(t *testing.T, rule rulefmt.Rule, alert promql.Sample) {
	t.Helper()
	for name, value := range bad {
		if got := alert.Metric.Get(name); got != value {
			t.Errorf("the label %s is %q, want %q", name, got, value)
		}
	}
	for _, name := range []string{"summary", "description"} {
		text := expand(t, rule.Annotations[name], alert)
		if !strings.Contains(text, "orders-2") || name == "summary" && !strings.Contains(text, "shop/") {
			t.Errorf("the %s does not say which program: %s", name, text)
		}
		if strings.Contains(text, "<no value>") || !strings.Contains(text, "ConfigMap") {
			t.Errorf("the %s lacks something: %s", name, text)
		}
	}
}

// expand is what Prometheus makes of an annotation.
func expand(t *testing.T, text string, alert promql.Sample) string {
	t.Helper()
	defs := "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	data := template.AlertTemplateData(alert.Metric.Map(), nil, "", alert)
	expander := template.NewTemplateExpander(context.Background(), defs+text, "alert", data, model.Time(0), nil, &url.URL{}, nil)
	made, err := expander.Expand()
	if err != nil {
		t.Error(err)
	}
	return made
}

// series returns the series of three Pods, of which only the bad one has what the alert is for.
func series(t *testing.T, alert, cachedNamespace string) storedSeries {
	t.Helper()
	var all storedSeries
	for _, target := range []map[string]string{
		{"cluster": "east", "namespace": "shop", "job": "orders", "pod": "orders-1", "instance": "10.0.0.1:8080"},
		bad,
		{"cluster": "east", "namespace": "bank", "job": "accounts", "pod": "accounts-1", "instance": "10.0.0.3:8080"},
	} {
		for _, one := range firing[alert] {
			values := one.quiet
			if target["pod"] == bad["pod"] {
				values = one.fires
			}
			text := fmt.Sprintf("%s{%s, cached_namespace=%q", one.metric, kind, cachedNamespace)
			if one.own != "" {
				text += ", " + one.own
			}
			for name, value := range target {
				text += fmt.Sprintf(", %s=%q", name, value)
			}
			of, sequence, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(text + "} " + values)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			samples := []chunks.Sample{}
			for n, v := range sequence {
				samples = append(samples, sample{at: int64(n) * time.Minute.Milliseconds(), value: v.Value})
			}
			all = append(all, storage.NewListSeries(of, samples))
		}
	}
	return all
}

// evaluate returns what an expression selects half an hour after the series have begun.
func evaluate(t *testing.T, expression string, from storedSeries) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute})
	defer func() { _ = engine.Close() }()
	query, err := engine.NewInstantQuery(t.Context(), from, nil, expression, time.UnixMilli(0).Add(30*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(vector)
}

// storedSeries is a store of Prometheus that has these series.
type storedSeries []storage.Series

func (s storedSeries) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: s.selected}, nil
}

func (s storedSeries) selected(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := storedSeries{}
	for _, one := range s {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Labels().Get(m.Name)) }) {
			found = append(found, one)
		}
	}
	return &cursor{storedSeries: found}
}

// cursor is a storage.SeriesSet.
type cursor struct {
	storedSeries
	next int
}

func (c *cursor) Next() bool                      { c.next++; return c.next <= len(c.storedSeries) }
func (c *cursor) At() storage.Series              { return c.storedSeries[c.next-1] }
func (*cursor) Err() error                        { return nil }
func (*cursor) Warnings() annotations.Annotations { return nil }

// sample is a chunks.Sample that is a number.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }
