// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/bench/internal/source"
	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// manyHandlers is what an operator with as many controllers of one kind has.
const manyHandlers = 20

// eventsLimit is far above what any number of events that one would send takes.
const eventsLimit = 10 * time.Minute

// tryEvents measures update events with one handler, and what they cost the garbage
// collector.
func tryEvents(ctx context.Context, s *subject) error {
	f, err := newFeed(s, 1)
	if err != nil {
		return err
	}
	if err := f.measure(ctx, event); err != nil {
		return err
	}
	if s.wants(collector) {
		if err := f.watchCollector(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tryFanOut measures update events that many handlers get.
func tryFanOut(ctx context.Context, s *subject) error {
	f, err := newFeed(s, manyHandlers)
	if err != nil {
		return err
	}
	return f.measure(ctx, eventFanOut)
}

// feed asks the server for events, and follows them to the handlers.
type feed struct {
	*subject
	counters []*counter
	sent     int // events that were asked for
}

// newFeed adds the handlers, and waits until they have had the existing Pods.
func newFeed(s *subject, handlers int) (*feed, error) {
	f := &feed{subject: s}
	for range handlers {
		c := newCounter()
		f.counters = append(f.counters, c)
		registration, err := s.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: c.update})
		if err != nil {
			return nil, err
		}
		select {
		case <-registration.HasSyncedChecker().Done():
		case <-time.After(syncLimit):
			return nil, fmt.Errorf("a handler has not had the existing Pods in %v", syncLimit)
		}
	}
	return f, nil
}

// measure has the events sent at full speed twice: a tenth of them to warm up, and
// all of them for the figure, which is the time from the first call of a handler to
// the last one divided by the number of events.
func (f *feed) measure(ctx context.Context, measure string) error {
	if !f.wants(measure) {
		return nil
	}
	if _, _, err := f.run(ctx, max(1, f.Effort.Events/10)); err != nil {
		return err
	}
	runtime.GC()
	took, calls, err := f.run(ctx, f.Effort.Events)
	if err != nil {
		return err
	}
	f.Values[measure] = took / float64(f.Effort.Events)
	if want := f.Effort.Events * len(f.counters); calls != want {
		f.Remarks = append(f.Remarks, fmt.Sprintf("%s: handlers were called %d times for %d events (%.1f %%): "+
			"a handler that lags gets the newest event of a key only", measure, calls, want, 100*float64(calls)/float64(want)))
	}
	return f.answerEvents(ctx)
}

// run sends events at full speed and waits until each handler has had the newest of
// every Pod.
func (f *feed) run(ctx context.Context, events int) (took float64, calls int, err error) {
	newest := min(events, source.Updated(f.Pods))
	for _, c := range f.counters {
		c.expect(f.version(f.sent+events-newest), newest)
	}
	if err := f.ask(ctx, events, 0); err != nil {
		return 0, 0, err
	}
	limit := time.After(eventsLimit)
	for i, c := range f.counters {
		select {
		case <-c.done:
		case <-limit:
			return 0, 0, fmt.Errorf("handler %d of %s has not had all of %d events in %v", i, f.Cache, events, eventsLimit)
		}
	}
	first, last := f.counters[0].first, f.counters[0].last
	for _, c := range f.counters {
		calls += c.calls
		if c.first.wall.Before(first.wall) {
			first = c.first
		}
		if c.last.wall.After(last.wall) {
			last = c.last
		}
	}
	took, err = seconds(f.Effort.Clock, first, last)
	return took, calls, err
}

// version returns the resourceVersion after so many events.
func (f *feed) version(events int) uint64 { return uint64(synthetic.FirstVersion + f.Pods + events) }

// answerEvents compares the state after the events.
func (f *feed) answerEvents(ctx context.Context) error {
	return f.answer(ctx, draw(f.cluster, f.Pods))
}

// ask returns as soon as the server begins to send.
func (f *feed) ask(ctx context.Context, events, rate int) error {
	url := fmt.Sprintf("%s%s?count=%d&rate=%d", f.URL, source.UpdatesPath, events, rate)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+f.Token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("ask for events: %w", err)
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for events: the server answers %s", response.Status)
	}
	f.sent += events
	return nil
}

// parseVersion returns 0 for what is no version; such an event never counts as the
// last one.
func parseVersion(text string) uint64 {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
