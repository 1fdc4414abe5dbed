// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tarn-dev/tarn/bench/internal/source"
	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// setting is what one result is measured with.
type setting struct {
	pods  int
	other int // MiB of heap beside the cache
}

func (s setting) String() string {
	if s.other == 0 {
		return digits(float64(s.pods)) + " Pods"
	}
	return fmt.Sprintf("%s Pods, %d MiB", digits(float64(s.pods)), s.other)
}

// result is everything that was measured with one setting.
type result struct {
	setting
	// values are those of the rounds, by measure and cache.
	values  map[string]map[string][]float64
	remarks []string
}

func (r *result) add(cache string, f *findings) {
	for id, value := range f.Values {
		if r.values[id] == nil {
			r.values[id] = map[string][]float64{}
		}
		r.values[id][cache] = append(r.values[id][cache], value)
	}
	for _, remark := range f.Remarks {
		if remark = cache + ": " + remark; !slices.Contains(r.remarks, remark) {
			r.remarks = append(r.remarks, remark)
		}
	}
}

// measureAll measures with each number of Pods, and each size of the other heap.
func measureAll(ctx context.Context, opts *options, progress io.Writer) ([]*result, error) {
	var all []*result
	for _, pods := range opts.pods {
		catalogs, err := record(opts, pods, progress)
		if err != nil {
			return nil, fmt.Errorf("with %d Pods: %w", pods, err)
		}
		for _, other := range opts.others {
			s := setting{pods, other}
			r, err := measureSetting(ctx, opts, s, catalogs, progress)
			if err != nil {
				return nil, fmt.Errorf("with %v: %w", s, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// measureSetting runs all rounds with one setting. The caches take turns within
// a trial, so that whatever else the machine does meets both, and each round begins
// with the other one.
func measureSetting(ctx context.Context, opts *options, s setting, catalogs map[string]*source.Catalog, progress io.Writer) (*result, error) {
	r := &result{setting: s, values: map[string]map[string][]float64{}}
	agreed := agreement{}
	for round := range opts.rounds {
		caches := slices.Clone(opts.caches)
		if round%2 == 1 {
			slices.Reverse(caches)
		}
		for _, trial := range opts.trials() {
			for _, cache := range caches {
				begin := time.Now()
				catalog := catalogs[trial]
				found, err := measureCache(ctx, opts, catalog, brief{Cache: cache, Trial: trial, Pods: catalog.Pods(), OtherHeap: s.other << 20})
				if err != nil {
					return nil, err
				}
				if err := agreed.check(trial, cache, found.Answers); err != nil {
					return nil, err
				}
				keepWanted(found, trial, opts.measures)
				r.add(cache, found)
				fmt.Fprintf(progress, "  %v: round %d, %-12s %-18s %v\n", s, round+1, trial, cache, time.Since(begin).Round(time.Millisecond))
			}
		}
	}
	return r, nil
}

// measureCache runs one measured process with a server of its own.
func measureCache(ctx context.Context, opts *options, catalog *source.Catalog, b brief) (*findings, error) {
	server, err := source.Serve(catalog)
	if err != nil {
		return nil, err
	}
	b.Measures, b.Seed, b.Effort = opts.measures, opts.seed, opts.effort
	b.URL, b.Token = server.URL(), server.Token()
	found, err := spawn(ctx, b, opts.lists)
	if err == nil {
		err = server.Check()
	}
	return found, errors.Join(err, server.Close())
}

// keepWanted drops what a trial finds beside the measures that belong to it.
func keepWanted(found *findings, trial string, wanted []string) {
	belongs := map[string]bool{}
	for _, m := range measures() {
		belongs[m.id] = m.trial == trial && slices.Contains(wanted, m.id)
	}
	maps.DeleteFunc(found.Values, func(id string, _ float64) bool { return !belongs[id] })
}

// trials returns the trials of the wanted measures, in the order of the table.
func (o *options) trials() []string {
	var all []string
	for _, m := range measures() {
		if slices.Contains(o.measures, m.id) && !slices.Contains(all, m.trial) {
			all = append(all, m.trial)
		}
	}
	return all
}

// resourceOf returns what a trial reads.
func resourceOf(trial string) source.Resource {
	if trial == customTrial || trial == unstructuredTrial {
		return source.Workloads
	}
	return source.Pods
}

// record makes the catalog of each trial; most of them share one.
func record(opts *options, pods int, progress io.Writer) (map[string]*source.Catalog, error) {
	begin := time.Now()
	contents := source.Contents{Cluster: synthetic.Cluster{Seed: opts.seed}, Pods: pods, Lists: opts.lists}
	for _, trial := range opts.trials() {
		if resource := resourceOf(trial); trial != idleTrial && !slices.Contains(contents.Resources, resource) {
			contents.Resources = append(contents.Resources, resource)
		}
	}
	shared, err := source.NewCatalog(contents)
	if err != nil {
		return nil, err
	}
	contents.Pods, contents.Resources = idlePods, []source.Resource{source.Pods}
	idle, err := source.NewCatalog(contents)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "%d Pods, seed %d: encoded in %v\n", pods, opts.seed, time.Since(begin).Round(time.Millisecond))
	all := map[string]*source.Catalog{}
	for _, trial := range opts.trials() {
		all[trial] = shared
	}
	all[idleTrial] = idle
	return all, nil
}

// agreement is what the first cache answered, by trial and query.
type agreement map[string]struct{ cache, answer string }

// check returns an error if any answer differs from the first one.
func (a agreement) check(trial, cache string, answers map[string]string) error {
	for _, query := range slices.Sorted(maps.Keys(answers)) {
		answer := answers[query]
		first, ok := a[trial+" "+query]
		if !ok {
			a[trial+" "+query] = struct{ cache, answer string }{cache, answer}
			continue
		}
		if first.answer != answer {
			return fmt.Errorf("the caches do not answer alike in trial %q, query %q: %s has %s, %s has %s",
				trial, query, first.cache, first.answer, cache, answer)
		}
	}
	return nil
}
