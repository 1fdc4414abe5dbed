// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary what main makes the program: the smoke test starts
// it as a measured process.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestSmoke takes every measure of both caches, in processes of their own.
func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	markdown, summary, svg := filepath.Join(dir, "table.md"), filepath.Join(dir, "summary.md"), filepath.Join(dir, "plot.svg")
	figures := filepath.Join(dir, "figures.txt")
	var out, progress bytes.Buffer
	err := run(t.Context(), []string{
		"-pods=200", "-other-heap=0,30", "-rounds=1", "-calltime=1ms", "-calllimit=200ms", "-events=400", "-rate=2000", "-window=50ms", "-windowlimit=2s", "-lag=1m",
		"-markdown=" + markdown, "-figures=" + figures, "-summary=" + summary, "-svg=" + svg,
	}, &out, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(out.String(), "\n")
	for _, m := range measures() {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "| "+m.title+" ") })
		if i < 0 {
			t.Errorf("the table has no row %q", m.title)
			continue
		}
		if _, known := peakRSS(); known && strings.Contains(lines[i], "| – |") && m.boundFor(setting{200, 30}) != 0 {
			t.Errorf("a value is missing: %s", lines[i])
		}
	}
	if text, err := os.ReadFile(figures); err != nil || string(text) != out.String() {
		t.Errorf("the file with the tables is not what was printed: %v", err)
	}
	if text, err := os.ReadFile(markdown); err != nil || strings.Count(string(text), "\n| ") != 2+len(measures()) || !strings.Contains(string(text), " (≤") {
		t.Errorf("the overview is not of all measures, %v:\n%s", err, text)
	}
	text, err := os.ReadFile(summary)
	if rows := strings.Count(string(text), "\n"); err != nil || rows != 2+len(summarized()) || !strings.Contains(string(text), "| heap after sync") {
		t.Errorf("the summary has %d rows, %v:\n%s", rows, err, text)
	}
	checkXML(t, svg)
}

// TestListThenWatch does without streaming lists.
func TestListThenWatch(t *testing.T) {
	var out, progress bytes.Buffer
	err := run(t.Context(), []string{
		"-pods=50", "-rounds=1", "-clock=wall", "-calltime=1ms", "-list-then-watch", "-measures=heap,get,event,unstructured-heap", "-events=50", "-caches=" + ours,
	}, &out, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
}

func checkXML(t *testing.T, file string) {
	t.Helper()
	svg, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer svg.Close()
	bars := 0
	for decoder := xml.NewDecoder(svg); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "g" {
			bars++
		}
	}
	if bars == 0 || bars > len(measures()) {
		t.Errorf("the plot has %d bars for %d measures", bars, len(measures()))
	}
}

func TestAgreement(t *testing.T) {
	a := agreement{}
	for _, cache := range names() {
		if err := a.check(readTrial, cache, map[string]string{"get": "1 objects"}); err != nil {
			t.Error(err)
		}
	}
	err := a.check(readTrial, ours, map[string]string{"get": "2 objects"})
	if err == nil || !strings.Contains(err.Error(), "do not answer alike") {
		t.Errorf("another answer gives %v", err)
	}
	if err := a.check(sharedTrial, ours, map[string]string{"get": "2 objects"}); err != nil {
		t.Errorf("trials are compared with each other: %v", err)
	}
}

func TestMedianAndRatio(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{4}, 4},
		{[]float64{9, 1, 5}, 5},
		{[]float64{8, 1, 2, 4}, 3},
	} {
		before := slices.Clone(c.values)
		if got := median(c.values); got != c.want || !slices.Equal(before, c.values) {
			t.Errorf("median of %v is %v, want %v; afterwards they are %v", before, got, c.want, c.values)
		}
	}
	got, ok := compare([]float64{10, 20, 40}, []float64{5, 4, 40})
	if want := (comparison{theirs: 20, ours: 5, ratio: 0.25, least: 0.2, most: 1}); !ok || got != want {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
	for _, incomplete := range [][2][]float64{{}, {{1}, {}}, {{1, 2}, {1}}, {{0}, {1}}} {
		if got, ok := compare(incomplete[0], incomplete[1]); ok {
			t.Errorf("%v gives %+v", incomplete, got)
		}
	}
}

func TestBounds(t *testing.T) {
	m := measure{unit: secondsOf, bounds: bounds{3, 2, 1}}
	for s, want := range map[setting]float64{
		{1, 30}: 3, {1000, 30}: 3, {19_999, 30}: 3, {20_000, 0}: 2, {99_999, 30}: 2, {100_000, 0}: 1, {1_000_000, 30}: 1, {1000, 0}: 0,
	} {
		if got := m.boundFor(s); got != want {
			t.Errorf("the bound with %v is %v, want %v", s, got, want)
		}
	}
	if m.unit = bytesOf; m.boundFor(setting{1000, 0}) != 3 {
		t.Error("a heap has no bound without other heap")
	}
	for _, c := range []struct {
		row  row
		want bool
	}{
		{row{bound: 0.5, comparison: comparison{ratio: 0.5}}, true},
		{row{bound: 0.5, comparison: comparison{ratio: 0.51}}, false},
		{row{bound: 1.2, comparison: comparison{ratio: 1.1}}, true},
		{row{comparison: comparison{ratio: 1.1}}, false},
		{row{measure: measure{unit: numberOf}, comparison: comparison{theirs: 10, ours: 12, ratio: 1.2}}, true},
		{row{measure: measure{unit: numberOf}, comparison: comparison{theirs: 10, ours: 13, ratio: 1.3}}, false},
	} {
		if got := c.row.met(); got != c.want {
			t.Errorf("%+v is met: %v", c.row, got)
		}
	}
}

// TestMeter lets a process allocate far more than its live heap, and then hardly
// anything.
func TestMeter(t *testing.T) {
	e := effort{Clock: cpuClock, Least: time.Millisecond, Most: 20 * time.Second}
	if _, known := processCPU(); !known {
		e.Clock = wallClock
	}
	m := e.meter(e.Least, e.Most)
	for !m.ended() {
		kept = make([]byte, 64<<10)
	}
	took, err := m.cost()
	if err != nil || m.last.cycles < m.from.cycles+wholeCycles || took.wall >= e.Most {
		t.Errorf("%+v, %v after %d collections", took, err, m.last.cycles-m.from.cycles)
	}
	if took.collector <= 0 || took.total <= 0 {
		t.Errorf("the collector took %v of %v", took.collector, took.total)
	}
	kept = make([]byte, 64<<20)
	m = e.meter(e.Least, 2*look)
	for !m.ended() {
		runtime.Gosched()
	}
	took, err = m.cost()
	if whole := readCollections().cpu - m.last.cpu; err != nil || took.collector < 0 || took.collector > whole/2 {
		t.Errorf("what allocates nothing is charged %v of a collection of %v, %v", took.collector, whole, err)
	}
	runtime.KeepAlive(kept)
}

var kept []byte

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit        unit
		value, like float64
		want        string
	}{
		{bytesOf, 1461.4 * (1 << 20), 1, "1,461 MiB"},
		{secondsOf, 0.0000244, 0.00003, "24.4 µs"},
		{secondsOf, 0.00042, 0.0012, "0.420 ms"},
		{secondsOf, 3.467, 7, "3.47 s"},
		{secondsPerSecond, 0.0281, 0, "28.1 ms/s"},
		{numberOf, 25, 1, "25"},
		{bytesOf, 0, 1, "0 MiB"},
	} {
		if got := format(c.unit, c.value, c.like); got != c.want {
			t.Errorf("%v beside %v is %q, want %q", c.value, c.like, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"-pods=0"}, {"-pods=1,x"}, {"-other-heap=-1"}, {"-other-heap="}, {"-rounds=0"}, {"-caches=mine"}, {"-measures=speed"}, {"-events=0"}, {"-rate=0"},
		{"-clock=sun"}, {"-calltime=0s"}, {"-calllimit=1ms"}, {"-window=5m"}, {"-svg=x", "-caches=" + ours}, {"-summary=x", "-caches=" + ours}, {"-markdown=x", "-caches=" + ours}, {"more"},
	} {
		if opts, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v gives %+v", args, opts)
		}
	}
}

func TestTablesAreWrittenBetweenMarks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + beginMark + "old\n" + endMark + "after\n")
	if err := writeTable(file, "new\n"); err != nil {
		t.Fatal(err)
	}
	want := "before\n" + beginMark + "\nnew\n\n" + endMark + "after\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	write("something else\n")
	if err := writeTable(file, "new\n"); err == nil {
		t.Error("a file without marks is overwritten")
	}
}

func TestClocks(t *testing.T) {
	begin := instant{wall: time.Unix(100, 0), cpu: time.Second}
	end := instant{wall: time.Unix(103, 0), cpu: 5 * time.Second}
	if got, err := seconds(wallClock, begin, end); got != 3 || err != nil {
		t.Errorf("by the wall clock %v, %v; want 3", got, err)
	}
	if _, known := processCPU(); !known {
		t.Skip("the system does not count CPU time")
	}
	if got, err := seconds(cpuClock, begin, end); got != 4 || err != nil {
		t.Errorf("by the CPU's clock %v, %v; want 4", got, err)
	}
	before, _ := processCPU()
	for n := 0; ; n++ {
		if after, _ := processCPU(); after > before {
			return // work is counted
		}
	}
}
