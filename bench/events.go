// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tarn-dev/tarn/bench/internal/source"
	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// manyHandlers is what an operator with as many controllers of one kind has.
const manyHandlers = 20

// handlersOf returns how many handlers a trial registers before the start.
func handlersOf(trial string) int {
	return map[string]int{eventsTrial: 1, steadyTrial: 1, fanOutTrial: manyHandlers, steadyFanOutTrial: manyHandlers}[trial]
}

// tryEvents measures bursts of update events that handlers get which were there from the start.
func tryEvents(ctx context.Context, s *subject) error {
	f := newFeed(s)
	s.Values[initial+f.suffix] = s.Values[initial]
	if err := f.burst(ctx, event+f.suffix, false); err != nil {
		return err
	}
	if err := f.burst(ctx, eventSkewed+f.suffix, true); err != nil {
		return err
	}
	return f.settle(ctx)
}

// feed asks the server for events, and follows them to the handlers.
type feed struct {
	*subject
	suffix string // of the measures' names
	sent   int    // events that were asked for
}

func newFeed(s *subject) *feed {
	f := &feed{subject: s}
	if handlersOf(s.Trial) == manyHandlers {
		f.suffix = toMany
	}
	return f
}

// eventsLimit is far above what any number of events that one would send takes.
const eventsLimit = 10 * time.Minute

// burst has events sent at full speed, again and again: a tenth of a
// burst to warm up, and then bursts for the figure, which is what all took divided by the number of updates.
func (f *feed) burst(ctx context.Context, measure string, skewed bool) error {
	if !f.wants(measure) {
		return nil
	}
	asked := source.Updates{Count: f.Effort.Events, Skewed: skewed}
	if _, err := f.run(ctx, source.Updates{Count: max(1, asked.Count/10), Skewed: skewed}); err != nil {
		return err
	}
	events, calls := 0, 0
	m := f.Effort.meter(f.Effort.Least, f.Effort.Most)
	for begun := false; !begun || !m.ended(); begun = true {
		called, err := f.run(ctx, asked)
		if err != nil {
			return err
		}
		events += asked.Count
		calls += called
	}
	took, err := m.cost()
	f.Values[measure] = took.total / float64(events)
	if share := float64(calls) / float64(events*len(f.handlers)); share != 1 {
		f.Remarks = append(f.Remarks, fmt.Sprintf("%s: handlers were called for %.0f %% of the events: "+
			"a handler that lags gets the newest event of a key only", measure, 100*share))
	}
	return err
}

// run asks for events and waits until each handler has had the newest of every Pod.
// It returns how often handlers were called.
func (f *feed) run(ctx context.Context, asked source.Updates) (calls int, err error) {
	asked.First = f.sent
	newest := asked.Newest(f.Pods)
	for _, c := range f.handlers {
		c.expect(uint64(synthetic.FirstVersion+f.Pods+asked.First+1), newest)
	}
	if err := f.ask(ctx, asked); err != nil {
		return 0, err
	}
	limit := time.After(eventsLimit)
	for i, c := range f.handlers {
		select {
		case <-c.done:
		case <-limit:
			return 0, fmt.Errorf("handler %d of %s has not had all of %d events in %v", i, f.Cache, asked.Count, eventsLimit)
		}
		calls += c.seen()
	}
	return calls, nil
}

// settled is the number of an event that no run of bursts comes to.
const settled = 1 << 28

// settle gives all Pods the state that they have at the end of every run, however many
// events there were in it, and compares what the caches answer then.
func (f *feed) settle(ctx context.Context) error {
	f.sent = settled
	if _, err := f.run(ctx, source.Updates{Count: source.Updated(f.Pods)}); err != nil {
		return err
	}
	return f.answer(ctx, draw(f.cluster, f.Pods))
}

// ask returns as soon as the server begins to send. It gives the events their numbers.
func (f *feed) ask(ctx context.Context, asked source.Updates) error {
	asked.First = f.sent
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+source.UpdatesPath, bytes.NewReader(body))
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
	f.sent += asked.Count
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
