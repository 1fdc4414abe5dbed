// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/stats"
	"github.com/tarn-dev/tarn/internal/store"
)

// figures are those of the informers that share series: sums, or the highest.
type figures struct {
	single    map[metric]float64            // of metrics without a label of their own
	labelled  map[metric]map[string]float64 // by that label
	durations map[metric]stats.Durations
	reads     map[store.ReadPlan]stats.Durations
}

func newFigures() *figures {
	return &figures{
		single: map[metric]float64{}, labelled: map[metric]map[string]float64{},
		durations: map[metric]stats.Durations{}, reads: map[store.ReadPlan]stats.Durations{},
	}
}

func (f *figures) sum(of metric, value float64) { f.single[of] += value }

func (f *figures) highest(of metric, value float64) { f.single[of] = max(f.single[of], value) }

func (f *figures) sumBy(of metric, label string, value float64) {
	if f.labelled[of] == nil {
		f.labelled[of] = map[string]float64{}
	}
	f.labelled[of][label] += value
}

func (f *figures) observe(of metric, d stats.Durations) {
	all := f.durations[of]
	all.Add(d)
	f.durations[of] = all
}

func (f *figures) observeRead(by store.ReadPlan, d stats.Durations) {
	all := f.reads[by]
	all.Add(d)
	f.reads[by] = all
}

// add adds an informer.
func (f *figures) add(s Sample) {
	f.addPhase(&s)
	f.addReads(&s.Reads)
	for reason := range listwatch.ReasonsOfLists() { // with those that have not occurred: increase() does not see a series begin
		f.sumBy(listsMetric, reason.String(), float64(s.Requests.Lists[reason]))
	}
	for reason := range listwatch.ReasonsOfEnds() {
		f.sumBy(watchEndsMetric, reason.String(), float64(s.Requests.Ends[reason]))
	}
	if s.Informer == nil {
		return
	}
	f.observe(decodeMetric, s.Requests.Decoded)
	f.addInformer(s.Informer)
	for cause, n := range s.Incomplete {
		f.sumBy(incompleteMetric, cause, float64(n))
	}
	for reason, n := range s.Unconfirmed {
		f.sumBy(unconfirmedMetric, reason, float64(n))
	}
	for part, bytes := range s.Memory {
		f.sumBy(memoryMetric, part, float64(bytes))
	}
}

// addPhase adds where an informer is in its life.
func (f *figures) addPhase(s *Sample) {
	f.sumBy(informersMetric, s.Phase, 1)
	if s.Cause != "" {
		f.sumBy(notSyncedMetric, s.Cause, 1)
	}
	if s.Age >= 0 {
		f.highest(ageMetric, s.Age.Seconds())
	}
}

// addInformer adds what an informer has counted.
func (f *figures) addInformer(s *informer.Stats) {
	for label, n := range map[string]uint64{
		"added": s.Events.Added, "modified": s.Events.Updated, "deleted": s.Events.Deleted, "bookmark": s.Events.Bookmarks,
	} {
		f.sumBy(eventsMetric, label, float64(n))
	}
	if !s.Synced.IsZero() {
		f.highest(syncMetric, s.Synced.Sub(s.Begun).Seconds())
	}
	f.sum(handlersMetric, float64(len(s.Handlers)))
	f.sum(handlerLaggedMetric, float64(s.Lagged))
	f.sum(handlerCallsMetric, float64(s.Called))
	f.observe(handlerDurationMetric, s.Calls)
	f.sum(lagEventsMetric, 0)
	f.sum(lagSecondsMetric, 0)
	for i := range s.Handlers {
		f.highest(lagEventsMetric, float64(s.Handlers[i].Behind))
		f.highest(lagSecondsMetric, s.Handlers[i].Since.Seconds())
	}
}

// addReads adds the reads of a store, and the store.
func (f *figures) addReads(s *store.Stats) {
	for _, by := range s.Reads {
		f.sumBy(readsMetric, by.Plan.String(), float64(by.Count))
		f.observeRead(by.Plan, by.Durations)
	}
	f.sum(labelScansMetric, float64(s.LabelScans))
	if s.Store == nil {
		return
	}
	f.sum(objectsMetric, float64(s.Store.Objects))
	f.sum(decodedObjectsMetric, float64(s.Store.Shared.Objects))
	f.sum(ownWritesMetric, float64(s.Store.OwnWrites))
	f.sum(keptStatesMetric, float64(s.Store.KeptStates))
	f.sum(labelIndexesMetric, 0)
	for _, one := range s.Store.Indexes {
		if one.Label {
			f.sum(labelIndexesMetric, 1)
		}
	}
}

// send sends all figures.
func (f *figures) send(to *sender) {
	for of, value := range f.single {
		to.value(of, value)
	}
	for of, values := range f.labelled {
		for label, value := range values {
			to.value(of, value, label)
		}
	}
	for of, d := range f.durations {
		to.histogram(of, d)
	}
	for plan, d := range f.reads {
		to.histogram(readDurationMetric, d, plan.String())
	}
}

// sender sends the series of one kind.
type sender struct {
	to     chan<- prometheus.Metric
	descs  *[numberOfMetrics]*prometheus.Desc
	labels []string
}

// counters are the metrics that only grow; the others are gauges.
var counters = map[metric]bool{
	eventsMetric: true, listsMetric: true, watchEndsMetric: true, handlerLaggedMetric: true, handlerCallsMetric: true,
	unconfirmedMetric: true, readsMetric: true, labelScansMetric: true,
}

func (s *sender) value(of metric, value float64, more ...string) {
	kind := prometheus.GaugeValue
	if counters[of] {
		kind = prometheus.CounterValue
	}
	s.to <- prometheus.MustNewConstMetric(s.descs[of], kind, value, s.with(more)...)
}

func (s *sender) histogram(of metric, d stats.Durations, more ...string) {
	buckets, count := map[float64]uint64{}, uint64(0)
	for n, in := range d.Buckets {
		count += in
		if bound, ok := stats.Bound(n); ok {
			buckets[float64(bound)/float64(time.Second)] = count
		}
	}
	s.to <- prometheus.MustNewConstHistogram(s.descs[of], d.Count, d.Sum.Seconds(), buckets, s.with(more)...)
}

func (s *sender) with(more []string) []string {
	return append(append([]string{}, s.labels...), more...)
}
