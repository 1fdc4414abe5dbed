// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// tryReads measures memory, and everything that is read with copies.
func tryReads(ctx context.Context, s *subject) error {
	if s.wants(heap) {
		s.Values[heap] = s.heapOfCache()
	}
	pods := draw(s.cluster, s.Pods)
	if s.wants(get, getFew, listAll, listNamespace, listLabelFirst, listLabel, listLabels, listField, listFieldSame, listFieldLabel) {
		if err := readAll(ctx, s, pods); err != nil {
			return err
		}
	}
	if s.wants(heapAfter) {
		s.Values[heapAfter] = s.heapOfCache()
	}
	if !s.wants(listUncopied) {
		return nil
	}
	if err := s.timeList(ctx, uncopied(), pods); err != nil {
		return err
	}
	_, err := s.answerLists(ctx, uncopied(), uncopied().of(pods))
	return err
}

func readAll(ctx context.Context, s *subject, pods []synthetic.Identity) error {
	if s.wants(listLabelFirst) { // before anything else lists by labels
		if err := s.timeFirst(ctx, pods[0]); err != nil {
			return err
		}
	}
	if err := s.answer(ctx, pods); err != nil {
		return err
	}
	if err := s.timeGet(ctx, get, pods); err != nil {
		return err
	}
	if err := s.timeGet(ctx, getFew, pods[:min(hotPods, len(pods))]); err != nil {
		return err
	}
	for _, query := range listQueries() {
		if err := s.timeList(ctx, query, pods); err != nil {
			return err
		}
	}
	return nil
}

// tryShared measures lists of what the cache itself keeps.
func tryShared(ctx context.Context, s *subject) error {
	pods := draw(s.cluster, s.Pods)
	if err := s.answer(ctx, pods); err != nil {
		return err
	}
	query := listQueries()[0]
	query.measure = listShared
	return s.timeList(ctx, query, pods)
}

// tryCustom measures custom resources that have a Go type.
func tryCustom(ctx context.Context, s *subject) error {
	s.Values[customSync] = s.Values[syncCPU]
	return s.lateEvents(ctx, customEvent)
}

// tryUnstructured measures custom resources without a Go type.
func tryUnstructured(ctx context.Context, s *subject) error {
	s.Values[unstructuredSync] = s.Values[syncCPU]
	if s.wants(unstructuredHeap) {
		s.Values[unstructuredHeap] = s.heapOfCache()
	}
	pods := draw(s.cluster, s.Pods)
	if err := s.answer(ctx, pods); err != nil {
		return err
	}
	if err := s.timeGet(ctx, unstructuredGet, pods); err != nil {
		return err
	}
	return s.lateEvents(ctx, unstructuredEvent)
}

// lateEvents measures updates in a burst with a handler that was added after the sync.
func (s *subject) lateEvents(ctx context.Context, measure string) error {
	if !s.wants(measure) {
		return nil
	}
	if err := s.addHandlers(1); err != nil {
		return err
	}
	if err := s.awaitHandlers(); err != nil {
		return err
	}
	f := &feed{subject: s}
	if err := f.burst(ctx, measure, false); err != nil {
		return err
	}
	return f.settle(ctx)
}

func (s *subject) timeGet(ctx context.Context, measure string, pods []synthetic.Identity) (err error) {
	if !s.wants(measure) {
		return nil
	}
	s.Values[measure], err = s.Effort.perCall(func(n int) error {
		pod := pods[n%len(pods)]
		return s.cache.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, s.example())
	})
	return err
}

func (s *subject) timeList(ctx context.Context, query listQuery, pods []synthetic.Identity) (err error) {
	if !s.wants(query.measure) {
		return nil
	}
	pods = query.of(pods)
	s.Values[query.measure], err = s.Effort.perCall(func(n int) error {
		opts, err := query.options(pods[n%len(pods)])
		if err != nil {
			return err
		}
		return s.cache.List(ctx, s.list(), opts...)
	})
	return err
}

// timeFirst times the first list by a label, for which no index is there yet.
func (s *subject) timeFirst(ctx context.Context, pod synthetic.Identity) error {
	opts, err := byApp(pod)
	if err != nil {
		return err
	}
	begin := now()
	if err := s.cache.List(ctx, s.list(), opts...); err != nil {
		return err
	}
	s.Values[listLabelFirst], err = seconds(s.Effort.Clock, begin, now())
	return err
}
