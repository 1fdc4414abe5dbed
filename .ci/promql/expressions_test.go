// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package promql_test reads the expressions in docs/grafana-dashboard.json and
// docs/prometheus-alerts.yaml with Prometheus' own parser. It is a module of its own, because that parser
// would bring the requirements of Prometheus into the go.mod of every program that uses Tarn.
// Prometheus' engine evaluates the alerts too.
package promql_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const docs = "../../docs/"

// TestExpressionsAreThoseOfExportedMetrics: each name and label in an expression is in docs/metrics.md,
// which a test of the package in docs compares with what a running cache exports.
func TestExpressionsAreThoseOfExportedMetrics(t *testing.T) {
	metrics := documented(t)
	all := append(dashboard(t), alerts(t)...)
	if len(all) < 30 {
		t.Fatalf("there are %d expressions", len(all))
	}
	for _, text := range all {
		expression, err := parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !metrics.check(t, text, expression) {
			t.Errorf("%s has no metric", text)
		}
	}
}

// parse parses an expression of a dashboard, whose variables Grafana replaces.
func parse(text string) (parser.Expr, error) {
	text = regexp.MustCompile(`"\$\w+"`).ReplaceAllString(strings.ReplaceAll(text, "$__rate_interval", "5m"), `".*"`)
	return parser.NewParser(parser.Options{}).ParseExpr(text)
}

// catalog is the metrics of docs/metrics.md with their labels.
type catalog map[string][]string

var common = []string{"cache", "group", "version", "kind", "representation", "cached_namespace"}

// target are labels that Prometheus gives to a program. Others may be there, so expressions name those of ours that they
// group without.
var target = []string{"cluster", "namespace", "job", "pod"}

func documented(t *testing.T) catalog {
	text := read(t, "metrics.md")
	found := catalog{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(tarn_\\w+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(text, -1) {
		names, its := []string{row[1]}, slices.Clone(common)
		if row[2] == "histogram" {
			names = []string{row[1] + "_bucket", row[1] + "_sum", row[1] + "_count"}
			its = append(its, "le")
		}
		for _, label := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			its = append(its, label[1])
		}
		for _, name := range names {
			found[name] = its
		}
	}
	if len(found) < 25 {
		t.Fatalf("metrics.md has %d metrics", len(found))
	}
	return found
}

// check looks at the selectors and the groupings of an expression, and reports whether there is a selector.
func (c catalog) check(t *testing.T, text string, expression parser.Expr) (selects bool) {
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selects = true
			if c[n.Name] == nil {
				t.Errorf("%s: there is no metric %s", text, n.Name)
			}
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !slices.Contains(target, m.Name) && !slices.Contains(c[n.Name], m.Name) {
					t.Errorf("%s: %s has no label %s", text, n.Name, m.Name)
				}
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				t.Errorf("%s: on() drops the labels of the target: match by ignoring()", text)
			}
		case *parser.AggregateExpr:
			if !n.Without {
				t.Errorf("%s: by() drops the labels of the target: group by without()", text)
			}
			parser.Inspect(n.Expr, func(inner parser.Node, _ []parser.Node) error {
				if s, ok := inner.(*parser.VectorSelector); ok {
					for _, label := range n.Grouping {
						if !slices.Contains(c[s.Name], label) {
							t.Errorf("%s: %s has no label %s to group by", text, s.Name, label)
						}
					}
				}
				return nil
			})
		}
		return nil
	})
	return selects
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(docs + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func dashboard(t *testing.T) (expressions []string) {
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(read(t, "grafana-dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	return expressions
}

func alerts(t *testing.T) (expressions []string) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus-alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			expressions = append(expressions, rule.Expr)
		}
	}
	return expressions
}
