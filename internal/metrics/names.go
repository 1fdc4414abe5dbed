// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

// metric is one of the metrics of informers.
type metric int

const (
	informersMetric metric = iota
	notSyncedMetric
	syncMetric
	ageMetric
	objectsMetric
	memoryMetric
	decodedObjectsMetric
	labelIndexesMetric
	ownWritesMetric
	keptStatesMetric
	incompleteMetric
	eventsMetric
	decodeMetric
	listsMetric
	watchEndsMetric
	handlersMetric
	lagEventsMetric
	lagSecondsMetric
	handlerLaggedMetric
	handlerCallsMetric
	handlerDurationMetric
	unconfirmedMetric
	readsMetric
	readDurationMetric
	labelScansMetric
	numberOfMetrics
)

// kindLabels are labels of all metrics of informers, beside "cache". There are as many values as kinds
// that the program caches. The namespace is empty unless the program has asked for it; "namespace" itself is a
// label of the target, whose value Prometheus keeps.
var kindLabels = []string{"group", "version", "kind", "representation", "cached_namespace"}

// definition is the name of a metric, its help, and the labels that it has beside kindLabels. Each of
// these has a handful of values, which the code fixes.
type definition struct {
	name, help string
	labels     []string
}

// definitions are in docs/metrics.md as well, with what to do when a figure is high.
var definitions = [numberOfMetrics]definition{
	informersMetric:       {"tarn_informer_informers", "Informers by phase. There is one for each namespace to which the kind is restricted, or one.", []string{"phase"}},
	notSyncedMetric:       {"tarn_informer_not_synced", "Informers that do not hold what the API server has, by cause.", []string{"cause"}},
	syncMetric:            {"tarn_informer_sync_duration_seconds", "Time from the start of the informer to its first complete list; the longest of all namespaces.", nil},
	ageMetric:             {"tarn_informer_age_seconds", "Time since the API server last told the informer anything; the longest of all namespaces.", nil},
	objectsMetric:         {"tarn_informer_objects", "Objects that are cached.", nil},
	memoryMetric:          {"tarn_informer_memory_bytes", "Estimate of the memory of the informer, by part.", []string{"part"}},
	decodedObjectsMetric:  {"tarn_informer_decoded_objects", "Objects that are kept flat and are also kept decoded, because they are read without copies.", nil},
	labelIndexesMetric:    {"tarn_informer_label_indexes", "Labels that are indexed because lists ask for them.", nil},
	ownWritesMetric:       {"tarn_informer_own_writes", "Objects the program has written that the watch has not shown yet.", nil},
	keptStatesMetric:      {"tarn_informer_pinned_states", "Old states that are kept for lists with pages to come.", nil},
	incompleteMetric:      {"tarn_informer_incomplete_objects", "Objects that are missing, in the cache or in an index, because a function of the program failed for them, by cause.", []string{"cause"}},
	eventsMetric:          {"tarn_informer_events_total", "Events of watches after the list, by type.", []string{"type"}},
	decodeMetric:          {"tarn_informer_decode_duration_seconds", "Time to decode the object of a watch event and to bring it into the form in which it is kept.", nil},
	listsMetric:           {"tarn_informer_lists_total", "Lists that were begun, by reason.", []string{"reason"}},
	watchEndsMetric:       {"tarn_informer_watch_ends_total", "Watches that have ended, or could not be opened, by reason.", []string{"reason"}},
	handlersMetric:        {"tarn_informer_handlers", "Event handlers.", nil},
	lagEventsMetric:       {"tarn_informer_handler_lag_events", "Events that the slowest event handler has not returned from.", nil},
	lagSecondsMetric:      {"tarn_informer_handler_lag_seconds", "Age of the oldest event that an event handler has not returned from.", nil},
	handlerLaggedMetric:   {"tarn_informer_handler_lagged_total", "How often an event handler fell out of the window of events, and was given one event for each changed object instead.", nil},
	handlerCallsMetric:    {"tarn_informer_handler_calls_total", "Calls of event handlers.", nil},
	handlerDurationMetric: {"tarn_informer_handler_duration_seconds", "Time that event handlers take for an event. One in eight calls is measured.", nil},
	unconfirmedMetric:     {"tarn_informer_own_writes_unconfirmed_total", "Writes of the program that reads no longer show although the watch has not shown them, by reason.", []string{"reason"}},
	readsMetric:           {"tarn_cache_reads_total", "Reads, by the plan by which they are answered.", []string{"plan"}},
	readDurationMetric:    {"tarn_cache_read_duration_seconds", "Time that reads take, by plan. Of reads by key one in 64 is measured.", []string{"plan"}},
	labelScansMetric:      {"tarn_cache_label_scans_total", "Lists by labels that have looked at more than 128 objects because there is no index.", nil},
}
