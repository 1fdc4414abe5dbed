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
		s.Values[heap] = liveHeap()
	}
	if s.wants(get, listAll, listNamespace, listLabelFirst, listLabel, listLabels, listField, listFieldLabel) {
		if err := readAll(ctx, s, draw(s.cluster, s.Pods)); err != nil {
			return err
		}
	}
	if s.wants(heapAfter) {
		s.Values[heapAfter] = liveHeap()
	}
	return nil
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

// tryUnstructured measures Pods kept without their Go type.
func tryUnstructured(ctx context.Context, s *subject) error {
	if s.wants(unstructuredHeap) {
		s.Values[unstructuredHeap] = liveHeap()
	}
	pods := draw(s.cluster, s.Pods)
	if err := s.answer(ctx, pods); err != nil {
		return err
	}
	return s.timeGet(ctx, unstructuredGet, pods)
}

func (s *subject) timeGet(ctx context.Context, measure string, pods []synthetic.Identity) (err error) {
	if !s.wants(measure) {
		return nil
	}
	s.Values[measure], err = perCall(s.Effort, func(n int) error {
		pod := pods[n%len(pods)]
		return s.cache.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, s.example())
	})
	return err
}

func (s *subject) timeList(ctx context.Context, query listQuery, pods []synthetic.Identity) (err error) {
	if !s.wants(query.measure) {
		return nil
	}
	s.Values[query.measure], err = perCall(s.Effort, func(n int) error {
		opts, err := query.options(pods[n%len(pods)])
		if err != nil {
			return err
		}
		return s.cache.List(ctx, s.list(), opts...)
	})
	return err
}

// timeFirst shows what an index that is made when it is first needed costs the call
// that needs it.
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
