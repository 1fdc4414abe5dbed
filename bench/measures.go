// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// unit is what a measure counts. Values are kept in bytes and seconds.
type unit int

const (
	bytesOf unit = iota
	secondsOf
	secondsPerSecond
	numberOf
)

// measure is one row of the table.
type measure struct {
	id    string
	title string
	unit  unit
	trial string
	bounds
}

// bounds are the ratios to reach with 1,000, 20,000 and 100,000 Pods; 0 means that the
// row is there to inform.
type bounds [3]float64

// boundFor returns the bound of the greatest of those numbers that a setting reaches. There is none for the times of
// fewer than 20,000 Pods in a process that has no other heap: no manager is as small.
func (m measure) boundFor(s setting) float64 {
	switch {
	case s.pods >= 100_000:
		return m.bounds[2]
	case s.pods >= 20_000:
		return m.bounds[1]
	case s.other == 0 && (m.unit == secondsOf || m.unit == secondsPerSecond):
		return 0
	}
	return m.bounds[0]
}

// The trials. Each runs in a process of its own for each cache and round.
const (
	readTrial         = "read"
	sharedTrial       = "shared"
	customTrial       = "custom"
	unstructuredTrial = "unstructured"
	eventsTrial       = "events"
	fanOutTrial       = "fan-out"
	steadyTrial       = "steady"
	steadyFanOutTrial = "steady-fan-out"
	idleTrial         = "idle"
)

// The measures, by the names that flags use.
const (
	heap              = "heap"
	peak              = "peak"
	syncCPU           = "sync-cpu"
	syncTime          = "sync"
	get               = "get"
	getFew            = "get-few"
	listAll           = "list-all"
	listNamespace     = "list-namespace"
	listLabelFirst    = "list-label-first"
	listLabel         = "list-label"
	listLabels        = "list-labels"
	listField         = "list-field"
	listFieldSame     = "list-field-same"
	listFieldLabel    = "list-field-label"
	heapAfter         = "heap-after"
	listUncopied      = "list-uncopied"
	listShared        = "list-shared"
	customSync        = "custom-sync"
	customEvent       = "custom-event"
	unstructuredSync  = "unstructured-sync"
	unstructuredHeap  = "unstructured-heap"
	unstructuredGet   = "unstructured-get"
	unstructuredEvent = "unstructured-event"
	initial           = "initial"
	event             = "event"
	eventSkewed       = "event-skewed"
	steady            = "steady"
	collector         = "collector"
	idleHeap          = "idle-heap"
	goroutines        = "goroutines"
)

// toMany is the end of the names of what is measured with many handlers.
const toMany = "-20"

// measures returns all rows in the order of the table.
func measures() []measure { return slices.Concat(readMeasures(), customMeasures(), eventMeasures()) }

func readMeasures() []measure {
	return []measure{
		{heap, "heap after sync, one field index", bytesOf, readTrial, bounds{0.15, 0.08, 0.06}},
		{peak, "peak RSS until synced", bytesOf, readTrial, bounds{0.75, 0.15, 0.08}},
		{syncCPU, "CPU to sync", secondsOf, readTrial, bounds{0.6, 0.5, 0.4}},
		{syncTime, "time to sync", secondsOf, readTrial, bounds{0.6, 0.5, 0.4}},
		{get, "Get", secondsOf, readTrial, bounds{0.5, 0.45, 0.45}},
		{getFew, "Get, one of ten", secondsOf, readTrial, bounds{0.65, 0.5, 0.5}},
		{listAll, "List everything", secondsOf, readTrial, bounds{0.5, 0.45, 0.3}},
		{listNamespace, "List a namespace (1 %)", secondsOf, readTrial, bounds{0.6, 0.5, 0.5}},
		{listLabelFirst, "List by one label, the first time", secondsOf, readTrial, bounds{1.2, 1, 0.9}},
		{listLabel, "List by one label (0.1 %)", secondsOf, readTrial, bounds{0.24, 0.07, 0.03}},
		{listLabels, "List by `in` and `!=` labels (0.15 %)", secondsOf, readTrial, bounds{0.38, 0.12, 0.05}},
		{listField, "List by a field (0.05 %)", secondsOf, readTrial, bounds{0.6, 0.45, 0.45}},
		{listFieldSame, "List by a field, always the same", secondsOf, readTrial, bounds{0.6, 0.45, 0.45}},
		{listFieldLabel, "List by a field and a label, always the same", secondsOf, readTrial, bounds{0.6, 0.45, 0.45}},
		{heapAfter, "heap after all these reads", bytesOf, readTrial, bounds{}},
		{listUncopied, "List everything, uncopied by the call", secondsOf, readTrial, bounds{1, 0.9, 0.9}},
		{listShared, "List everything, uncopied by the cache", secondsOf, sharedTrial, bounds{1, 1, 0.9}},
	}
}

func customMeasures() []measure {
	return []measure{
		{customSync, "custom resources: sync, CPU", secondsOf, customTrial, bounds{0.8, 0.6, 0.6}},
		{customEvent, "custom resources: update in a burst", secondsOf, customTrial, bounds{0.8, 0.6, 0.6}},
		{unstructuredSync, "custom resources, unstructured: sync, CPU", secondsOf, unstructuredTrial, bounds{0.8, 0.6, 0.6}},
		{unstructuredEvent, "custom resources, unstructured: update in a burst", secondsOf, unstructuredTrial, bounds{0.8, 0.6, 0.6}},
		{unstructuredGet, "custom resources, unstructured: Get", secondsOf, unstructuredTrial, bounds{0.6, 0.5, 0.5}},
		{unstructuredHeap, "custom resources, unstructured: heap", bytesOf, unstructuredTrial, bounds{0.15, 0.08, 0.06}},
	}
}

func eventMeasures() []measure {
	return []measure{
		{initial, "until 1 handler has every object, CPU", secondsOf, eventsTrial, bounds{0.9, 0.6, 0.5}},
		{initial + toMany, "until 20 handlers have every object, CPU", secondsOf, fanOutTrial, bounds{0.9, 0.6, 0.5}},
		{event, "update in a burst, 1 handler", secondsOf, eventsTrial, bounds{0.75, 0.6, 0.5}},
		{event + toMany, "update in a burst, 20 handlers", secondsOf, fanOutTrial, bounds{0.75, 0.6, 0.5}},
		{eventSkewed, "update in a skewed burst, 1 handler", secondsOf, eventsTrial, bounds{0.9, 0.7, 0.6}},
		{eventSkewed + toMany, "update in a skewed burst, 20 handlers", secondsOf, fanOutTrial, bounds{0.9, 0.7, 0.6}},
		{steady, "1,000 updates a second, 1 handler, CPU", secondsPerSecond, steadyTrial, bounds{0.8, 0.75, 0.7}},
		{steady + toMany, "1,000 updates a second, 20 handlers, CPU", secondsPerSecond, steadyFanOutTrial, bounds{0.8, 0.75, 0.7}},
		{collector, "of it the garbage collector, 1 handler", secondsPerSecond, steadyTrial, bounds{0.7, 0.3, 0.2}},
		{collector + toMany, "of it the garbage collector, 20 handlers", secondsPerSecond, steadyFanOutTrial, bounds{0.7, 0.3, 0.2}},
		{idleHeap, "heap of an idle cache of 10 Pods, 1,100 updates", bytesOf, idleTrial, bounds{1, 1, 1}},
		{goroutines, "goroutines of that process", numberOf, idleTrial, bounds{}},
	}
}

func measureIDs() []string {
	var all []string
	for _, m := range measures() {
		all = append(all, m.id)
	}
	return all
}
