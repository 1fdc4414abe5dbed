// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Ratios reads the output of the benchmarks of package cacher and prints, as a Markdown table, the
// ratio of ours to upstream's for each measure:
//
//	go test ./pkg/cacher -run '^$' -bench . -count 3 | go run ./bench/internal/ratios
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"
)

func main() {
	m, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ratios: cannot read the output of the benchmarks:", err)
		os.Exit(1)
	}
	if err := m.print(os.Stdout, rows()); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

// quantity is what is measured by a benchmark, in one unit.
type quantity struct{ benchmark, unit string }

// measurements are all values of each quantity; names is in the order of the input.
type measurements struct {
	values map[quantity][]float64
	names  []string
}

// read reads the output of go test.
func read(from io.Reader) (*measurements, error) {
	m := &measurements{values: map[quantity][]float64{}}
	reader := benchfmt.NewReader(from, "standard input")
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // what else go test prints
		}
		name := benchmark(result.Name)
		if !slices.Contains(m.names, name) {
			m.names = append(m.names, name)
		}
		for _, v := range result.Values {
			q := quantity{name, v.Unit}
			m.values[q] = append(m.values[q], v.Value)
		}
	}
	return m, reader.Err()
}

// benchmark returns a name without the number of processors.
func benchmark(name benchfmt.Name) string {
	base, parts := name.Parts()
	full := string(base)
	for _, part := range parts {
		if part[0] == '/' {
			full += string(part)
		}
	}
	return full
}

// median returns the median of the values of a quantity.
func (m *measurements) median(q quantity) (value float64, ok bool) {
	values := slices.Clone(m.values[q])
	if len(values) == 0 {
		return 0, false
	}
	sample := benchmath.NewSample(values, &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 0.95).Center, true
}

// print prints one line for each row that was measured.
func (m *measurements) print(to io.Writer, rows []row) error {
	if _, err := fmt.Fprint(to, "| measure | compared with | Tarn | ratio | at most |\n|---|--:|--:|--:|--:|\n"); err != nil {
		return err
	}
	for _, r := range rows {
		for _, r := range r.expand(m.names) {
			_, unit := benchunit.Tidy(1, r.unit)
			ours, ok := m.median(quantity{r.ours, unit})
			theirs, known := m.median(quantity{r.theirs, unit})
			if !ok || !known {
				continue
			}
			_, err := fmt.Fprintf(to, "| %s | %s | %s | %s | %s |\n", r.title, show(theirs, unit), show(ours, unit), r.judge(ours/theirs), r.bound())
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// show writes a value with its unit, e.g. 12.3ms.
func show(value float64, unit string) string {
	short := strings.NewReplacer("cpu-", "", "p99-", "", "sec", "s").Replace(unit)
	short, _, _ = strings.Cut(short, "/")
	return benchunit.Scale(value, benchunit.ClassOf(unit)) + short
}
