// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// compared is how many objects, and how many lists of each kind, are compared.
const compared = 50

// answer records the results of all kinds of queries: a cache must not be fast because it answers
// something else.
func (s *subject) answer(ctx context.Context, pods []synthetic.Identity) error {
	pods = pods[:min(compared, len(pods))]
	if err := s.answerGets(ctx, pods); err != nil {
		return err
	}
	for _, query := range listQueries() {
		found, err := s.answerLists(ctx, query, query.of(pods))
		if err != nil {
			return err
		}
		if query.measure == listAll && found != s.Pods {
			return fmt.Errorf("%s lists %d Pods, but %d were served", s.Cache, found, s.Pods)
		}
	}
	return nil
}

// answerGets compares whole objects.
func (s *subject) answerGets(ctx context.Context, pods []synthetic.Identity) error {
	sum := sha256.New()
	for _, pod := range pods {
		object := s.example()
		if err := s.cache.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, object); err != nil {
			return err
		}
		if err := json.NewEncoder(sum).Encode(object); err != nil {
			return err
		}
	}
	s.Answers["get"] = digest(len(pods), sum)
	return nil
}

// answerLists compares the names and versions of what lists have, in any order.
func (s *subject) answerLists(ctx context.Context, query listQuery, pods []synthetic.Identity) (found int, err error) {
	sum := sha256.New()
	for _, pod := range pods {
		opts, err := query.options(pod)
		if err != nil {
			return 0, err
		}
		list := s.list()
		if err := s.cache.List(ctx, list, opts...); err != nil {
			return 0, err
		}
		items, err := items(list)
		if err != nil {
			return 0, err
		}
		found += len(items)
		for _, item := range items {
			fmt.Fprintln(sum, item.GetNamespace(), item.GetName(), item.GetResourceVersion())
		}
	}
	s.Answers[query.measure] = digest(found, sum)
	return found, nil
}

// items returns the list's objects sorted by key.
func items(list client.ObjectList) ([]metav1.Object, error) {
	all := make([]metav1.Object, 0, meta.LenList(list))
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		item, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	slices.SortFunc(all, func(a, b metav1.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all, nil
}

func digest(objects int, sum hash.Hash) string {
	return fmt.Sprintf("%d objects, sha256 %x", objects, sum.Sum(nil)[:8])
}
