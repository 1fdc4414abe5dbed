// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report writes what was measured.
type report struct {
	facts   []string
	opts    *options
	results []*result
}

// row is one measure in a result.
type row struct {
	measure
	cells [2]string // theirs and ours
	comparison
	compared bool
	bound    float64 // the ratio to reach; 0 if there is none
}

// moreGoroutines is how many more than theirs an idle informer may have; a ratio of
// numbers that Go's HTTP client is the greater part of says little.
const moreGoroutines = 2

// met says whether the bound is; what has none is to be no worse.
func (r row) met() bool {
	if r.unit == numberOf {
		return r.ours <= r.theirs+moreGoroutines
	}
	return r.ratio <= cmp.Or(r.bound, 1)
}

// rows returns those measures that were taken.
func (r *result) rows() []row {
	var all []row
	for _, m := range measures() {
		values := r.values[m.id]
		if len(values) == 0 {
			continue
		}
		line := row{measure: m, bound: m.boundFor(r.setting)}
		line.comparison, line.compared = compare(values[theirs], values[ours])
		for i, cache := range []string{theirs, ours} {
			line.cells[i] = "–"
			if len(values[cache]) == 0 {
				continue
			}
			value := median(values[cache])
			like := value
			if line.compared {
				like = line.theirs
			}
			line.cells[i] = format(m.unit, value, like)
		}
		all = append(all, line)
	}
	return all
}

func (r row) ratioCells() []string {
	if !r.compared {
		return []string{"–", "–", "–"}
	}
	cells := []string{ratioText(r.ratio), ratioText(r.least) + "–" + ratioText(r.most), "–"}
	verdict := map[bool]string{true: "met", false: "missed"}[r.met()]
	switch {
	case r.unit == numberOf:
		cells[2] = fmt.Sprintf("≤ %d more, %s", moreGoroutines, verdict)
	case r.bound != 0:
		cells[2] = fmt.Sprintf("≤ %g, %s", r.bound, verdict)
	}
	return cells
}

// table returns all results as Markdown, aligned so that it reads well as it is.
func (p report) table() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s. %s, seed %d.\n", strings.Join(p.facts, ", "), plural(p.opts.rounds, "round"), p.opts.seed)
	if p.opts.effort.Clock == wallClock {
		b.WriteString("All times are wall time; the bounds are meant for CPU time.\n")
	}
	for _, r := range p.results {
		lines := [][]string{{"measure", theirs, ours, "ratio", "rounds' ratios", "bound"}}
		for _, row := range r.rows() {
			lines = append(lines, slices.Concat([]string{row.title}, row.cells[:], row.ratioCells()))
		}
		fmt.Fprintf(b, "\n### %v\n\n%s", r.setting, align(lines))
		for _, remark := range r.remarks {
			fmt.Fprintf(b, "\n%s.\n", remark)
		}
	}
	return b.String()
}

// overview returns the ratio of each measure with all settings, as Markdown: beside it the bound, and bold if
// the bound is missed.
func (p report) overview() string {
	lines := [][]string{{"measure"}}
	for _, r := range p.results {
		lines[0] = append(lines[0], r.setting.String())
	}
	for _, m := range measures() {
		if !slices.Contains(p.opts.measures, m.id) {
			continue
		}
		line := []string{m.title}
		for _, r := range p.results {
			rows, cell := r.rows(), "–"
			if i := slices.IndexFunc(rows, func(taken row) bool { return taken.id == m.id }); i >= 0 {
				cell = rows[i].overviewCell()
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	return fmt.Sprintf("%s. %s, seed %d.\n\n%s", strings.Join(p.facts, ", "), plural(p.opts.rounds, "round"), p.opts.seed, align(lines))
}

func (r row) overviewCell() string {
	if !r.compared {
		return "–"
	}
	ratio, bound := ratioText(r.ratio), ""
	switch {
	case r.unit == numberOf:
		bound = fmt.Sprintf(" (≤%d more)", moreGoroutines)
	case r.bound != 0:
		bound = fmt.Sprintf(" (≤%g)", r.bound)
	}
	if bound != "" && !r.met() {
		ratio = "**" + ratio + "**"
	}
	return ratio + bound
}

// summarized are the measures that say most to a newcomer.
func summarized() []string {
	return []string{heap, peak, syncTime, get, listAll, listLabelFirst, listLabel, listField, event, steady, collector}
}

// likeManagers returns the results with the most other heap.
func (p report) likeManagers() []*result {
	most := slices.Max(p.opts.others)
	return slices.DeleteFunc(slices.Clone(p.results), func(r *result) bool { return r.other != most })
}

// summary returns the ratios of a few measures with all numbers of Pods and the most other heap, as Markdown.
func (p report) summary() string {
	lines := [][]string{{""}}
	for _, m := range measures() {
		if slices.Contains(summarized(), m.id) && slices.Contains(p.opts.measures, m.id) {
			lines = append(lines, []string{m.title})
		}
	}
	for _, r := range p.likeManagers() {
		lines[0] = append(lines[0], digits(float64(r.pods)))
		at := 0
		for _, row := range r.rows() {
			if slices.Contains(summarized(), row.id) {
				at++
				lines[at] = append(lines[at], row.ratioCells()[0])
			}
		}
	}
	return align(lines)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// align returns a Markdown table whose first line is its head and whose first column
// is of text.
func align(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	b := &strings.Builder{}
	for n, line := range lines {
		for i, cell := range line {
			padding := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i == 0 {
				b.WriteString("| " + cell + padding)
				continue
			}
			b.WriteString(" | " + padding + cell)
		}
		b.WriteString(" |\n")
		if n > 0 {
			continue
		}
		for i, width := range widths {
			rule := strings.Repeat("-", width)
			if i > 0 {
				rule = rule[1:] + ":"
			}
			b.WriteString("| " + rule + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// The marks between which a file's tables are replaced.
const (
	beginMark = "<!-- bench: begin -->\n"
	endMark   = "<!-- bench: end -->\n"
)

// write writes the files that were asked for.
func (p report) write() error {
	if p.opts.markdown != "" {
		if err := writeTable(p.opts.markdown, p.overview()); err != nil {
			return err
		}
	}
	if p.opts.figures != "" {
		if err := writeFile(p.opts.figures, p.table()); err != nil {
			return err
		}
	}
	if p.opts.summary != "" {
		if err := writeTable(p.opts.summary, p.summary()); err != nil {
			return err
		}
	}
	if p.opts.svg == "" {
		return nil
	}
	svg, err := plot(p.facts, p.opts.rounds, p.likeManagers())
	if err != nil {
		return err
	}
	return writeFile(p.opts.svg, svg)
}

// writeTable replaces what is between the marks of an existing file, or else the
// whole file.
func writeTable(file, table string) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("write the tables: %w", err)
	}
	before, rest, begun := strings.Cut(string(old), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if len(old) > 0 && !(begun && ended) {
		return fmt.Errorf("write the tables: %s exists and has no lines %q and %q to put them between",
			file, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	if begun {
		table = before + beginMark + "\n" + table + "\n" + endMark + after
	}
	return writeFile(file, table)
}

func writeFile(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}
