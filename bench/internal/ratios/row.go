// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// row is one line of the table: a quantity of two benchmarks, and how high the ratio of the
// first to the second may be; 0 is no bound. If the names end with a slash it is one row for
// each benchmark below.
type row struct {
	title        string
	ours, theirs string
	unit         string
	atMost       float64
}

// against compares a benchmark of both Cachers.
func against(title, benchmark, unit string, atMost float64) row {
	return row{title, strings.ReplaceAll(benchmark, "*", "tarn"), strings.ReplaceAll(benchmark, "*", "upstream"), unit, atMost}
}

const listEverything = "StoreList/*/Indexed=true/RV="

func rows() []row {
	return []row{
		against("list everything, not paginated", listEverything+"/Scope=Cluster/Paginate=0", "ns/op", 1),
		against("list everything in pages of 1,000", listEverything+"/Scope=Cluster/Paginate=1000", "ns/op", 0.1),
		against("list one node's Pods, exact resourceVersion, indexed", listEverything+"Exact/Scope=Node/Paginate=0", "ns/op", 0.01),
		against("list one node's Pods, indexed, consistent", listEverything+"/Scope=Node/Paginate=0", "ns/op", 1),
		against("list one namespace, consistent", listEverything+"/Scope=Namespace/Paginate=0", "ns/op", 1),
		against("list one namespace, exact resourceVersion", listEverything+"Exact/Scope=Namespace/Paginate=0", "ns/op", 1),
		against("list one namespace, not older than", listEverything+"NotOlderThan/Scope=Namespace/Paginate=0", "ns/op", 1),
		against("list few of 20,000 objects in memory, CPU: ", "SmallList/*/", "cpu-ns/op", 1),
		against("list by one label (0.1 %)", "StoreList/*/Scope=Label", "ns/op", 0.05),
		against("write: ", "StoreWriteThroughput/*/", "ns/op", 1),
		against("dispatch, CPU per event: Watchers=1, ", "FanOut/*/Watchers=1/", "cpu-ns/op", 0),
		against("dispatch, CPU per event: Watchers=100, ", "FanOut/*/Watchers=100/", "cpu-ns/op", 0),
		against("dispatch, CPU per event: Watchers=1000, ", "FanOut/*/Watchers=1000/", "cpu-ns/op", 0),
		against("dispatch, CPU per event: Watchers=10000, ", "FanOut/*/Watchers=10000/", "cpu-ns/op", 0.6),
		{"p99 latency of 99 watchers while one is stuck, against none stuck", "Latency/tarn/Stuck=true", "Latency/tarn/Stuck=false", "p99-ns", 1.2},
		{"the same of upstream's Cacher", "Latency/upstream/Stuck=true", "Latency/upstream/Stuck=false", "p99-ns", 0},
		against("p99 latency of 99 watchers, none stuck", "Latency/*/Stuck=false", "p99-ns", 0),
		against("memory per idle watcher", "IdleWatchers/*", "B/watcher", 0.6),
		against("heap per object, decoded", "Objects/*", "B/object", 1),
		{"heap per object, flat", "Objects/tarn-flat", "Objects/upstream", "B/object", 0.2},
	}
}

// expand returns the rows that r stands for, given the names of all benchmarks.
func (r row) expand(names []string) []row {
	if !strings.HasSuffix(r.ours, "/") {
		return []row{r}
	}
	var all []row
	for _, name := range names {
		if below, ok := strings.CutPrefix(name, r.ours); ok {
			all = append(all, row{r.title + strings.ReplaceAll(below, "/", ", "), name, r.theirs + below, r.unit, r.atMost})
		}
	}
	return all
}

func (r row) bound() string {
	if r.atMost == 0 {
		return ""
	}
	return fmt.Sprint(r.atMost)
}

// judge writes a ratio, in bold if it is too high.
func (r row) judge(ratio float64) string {
	if r.atMost > 0 && ratio > r.atMost {
		return fmt.Sprintf("**%.3g**", ratio)
	}
	return fmt.Sprintf("%.3g", ratio)
}
