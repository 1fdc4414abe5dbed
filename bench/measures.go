// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// unit is what a measure counts. Values are kept in bytes and seconds.
type unit int

const (
	bytesOf unit = iota
	secondsOf
	secondsPerSecond
)

// measure is one row of the table.
type measure struct {
	id    string
	title string
	unit  unit
	trial string
	// target is the ratio to reach with fullScale Pods or more; 0 means that
	// the row is there to inform.
	target float64
}

// fullScale is the number of Pods for which the targets are meant. With fewer, all
// of them are 1: not worse.
const fullScale = 100_000

func (m measure) targetFor(pods int) float64 {
	if m.target != 0 && pods < fullScale {
		return 1
	}
	return m.target
}

// The trials. Each runs in a process of its own for each cache and round.
const (
	readTrial         = "read"
	sharedTrial       = "shared"
	unstructuredTrial = "unstructured"
	eventsTrial       = "events"
	fanOutTrial       = "fan-out"
)

// The measures, by the names that flags use.
const (
	heap             = "heap"
	peak             = "peak"
	syncTime         = "sync"
	get              = "get"
	listAll          = "list-all"
	listNamespace    = "list-namespace"
	listLabelFirst   = "list-label-first"
	listLabel        = "list-label"
	listLabels       = "list-labels"
	listField        = "list-field"
	listFieldLabel   = "list-field-label"
	heapAfter        = "heap-after"
	listShared       = "list-shared"
	unstructuredHeap = "unstructured-heap"
	unstructuredGet  = "unstructured-get"
	event            = "event"
	collector        = "collector"
	eventFanOut      = "event-20"
)

// measures returns all rows in the order of the table.
func measures() []measure {
	return []measure{
		{id: heap, title: "heap after sync, one field index", unit: bytesOf, trial: readTrial, target: 0.125},
		{id: peak, title: "peak RSS until synced", unit: bytesOf, trial: readTrial, target: 0.25},
		{id: syncTime, title: "time to sync", unit: secondsOf, trial: readTrial, target: 0.7},
		{id: get, title: "Get", unit: secondsOf, trial: readTrial, target: 0.8},
		{id: listAll, title: "List everything", unit: secondsOf, trial: readTrial, target: 0.6},
		{id: listNamespace, title: "List a namespace (1 %)", unit: secondsOf, trial: readTrial, target: 0.6},
		{id: listLabelFirst, title: "List by one label, the first time", unit: secondsOf, trial: readTrial},
		{id: listLabel, title: "List by one label (0.1 %)", unit: secondsOf, trial: readTrial, target: 0.02},
		{id: listLabels, title: "List by `in` and `!=` labels (0.15 %)", unit: secondsOf, trial: readTrial, target: 0.03},
		{id: listField, title: "List by a field (0.05 %)", unit: secondsOf, trial: readTrial, target: 0.7},
		{id: listFieldLabel, title: "List by a field and a label", unit: secondsOf, trial: readTrial, target: 0.7},
		{id: heapAfter, title: "heap after all these reads", unit: bytesOf, trial: readTrial},
		{id: listShared, title: "List everything without copies", unit: secondsOf, trial: sharedTrial, target: 0.9},
		{id: unstructuredHeap, title: "the same Pods as unstructured: heap", unit: bytesOf, trial: unstructuredTrial, target: 0.06},
		{id: unstructuredGet, title: "the same Pods as unstructured: Get", unit: secondsOf, trial: unstructuredTrial, target: 0.9},
		{id: event, title: "time per event, one handler", unit: secondsOf, trial: eventsTrial, target: 0.7},
		{id: eventFanOut, title: "time per event, 20 handlers", unit: secondsOf, trial: fanOutTrial, target: 0.4},
		{id: collector, title: "CPU of the garbage collector, steady events", unit: secondsPerSecond, trial: eventsTrial, target: 0.2},
	}
}

func measureIDs() []string {
	var all []string
	for _, m := range measures() {
		all = append(all, m.id)
	}
	return all
}
