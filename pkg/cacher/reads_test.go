// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// read gets and lists until ctx ends.
func (w *world) read(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, time.Second) {
		kind, err := "list", error(nil)
		if r.IntN(4) == 0 {
			kind, err = "get", w.get(ctx, r)
		} else {
			err = w.list(ctx, r)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case tellsWhatToDo(err), errors.Is(err, errInjected):
			kind += " refused"
		default:
			w.fail(err)
		}
		w.mu.Lock()
		w.answered[kind]++
		w.mu.Unlock()
	}
}

// get compares a Get that is not older than a revision.
func (w *world) get(ctx context.Context, r *rand.Rand) error {
	key, before := podKey(randomNamespace(r), randomName(r)), w.storage.now()
	opts := storage.GetOptions{IgnoreNotFound: true, ResourceVersion: oneOf(r, "", "0", fmt.Sprint(before))}
	got := &example.Pod{}
	if err := w.cacher.Get(ctx, key, opts, got); err != nil {
		return err
	}
	from := before
	if opts.ResourceVersion == "0" {
		from = 0
	}
	for revision := w.storage.now(); revision >= from; revision-- {
		if apiequality.Semantic.DeepEqual(got, find(w.storage.at(revision), key)) {
			return nil
		}
		if revision == 0 {
			break
		}
	}
	return fmt.Errorf("get of %s at %q: %s was there at no revision since", key, opts.ResourceVersion, got.ResourceVersion)
}

func find(pods []*example.Pod, key string) *example.Pod {
	for _, pod := range pods {
		if podKey(pod.Namespace, pod.Name) == key {
			return pod
		}
	}
	return &example.Pod{}
}

// list compares a list, which may be read page by page.
func (w *world) list(ctx context.Context, r *rand.Rand) error {
	before := w.storage.now()
	key, p := randomSelection(r)
	if r.IntN(2) == 0 {
		p.Limit = 1 + r.Int64N(8)
	}
	opts := storage.ListOptions{Predicate: p, Recursive: true}
	switch r.IntN(5) {
	case 0, 1: // consistent
	case 2:
		opts.ResourceVersion = "0"
	case 3:
		opts.ResourceVersion, opts.ResourceVersionMatch = fmt.Sprint(before), metav1.ResourceVersionMatchNotOlderThan
	case 4:
		opts.ResourceVersion, opts.ResourceVersionMatch = fmt.Sprint(before-min(before-1, r.Uint64N(100))), metav1.ResourceVersionMatchExact
	}
	asked, revision := opts, uint64(0)
	var got []example.Pod
	for {
		page := &example.PodList{}
		if err := w.cacher.GetList(ctx, key, opts, page); err != nil {
			return err
		}
		at, err := strconv.ParseUint(page.ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		if revision != 0 && at != revision {
			return fmt.Errorf("list of %s: a page of revision %d has a next one of %d", key, revision, at)
		}
		revision, got = at, append(got, page.Items...)
		if err := w.checkRemaining(key, page, revision, len(got), asked); err != nil {
			return err
		}
		if page.Continue == "" {
			break
		}
		opts.Predicate.Continue, opts.ResourceVersion, opts.ResourceVersionMatch = page.Continue, "", ""
		if r.IntN(3) == 0 {
			pause(ctx, r, 5*time.Second)
		}
	}
	if err := w.checkList(key, got, revision, asked, before); err != nil {
		return fmt.Errorf("list of %s at %q %s, %+v: %w", key, asked.ResourceVersion, asked.ResourceVersionMatch, p, err)
	}
	return nil
}

// checkRemaining compares the number of objects on the pages that are still to come.
func (w *world) checkRemaining(key string, page *example.PodList, revision uint64, sofar int, opts storage.ListOptions) error {
	if page.RemainingItemCount == nil {
		return nil
	}
	o := &observer{key: key, opts: opts}
	if remaining := int64(len(o.state(w.storage, revision)) - sofar); *page.RemainingItemCount != remaining {
		return fmt.Errorf("list of %s: %d objects are said to remain, there are %d", key, *page.RemainingItemCount, remaining)
	}
	return nil
}

func (w *world) checkList(key string, got []example.Pod, revision uint64, opts storage.ListOptions, before uint64) error {
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	switch {
	case opts.ResourceVersion != "0" && !exact && revision < before:
		return fmt.Errorf("it is of revision %d, older than %d", revision, before)
	case exact && fmt.Sprint(revision) != opts.ResourceVersion:
		return fmt.Errorf("it is of revision %d", revision)
	}
	o := &observer{key: key, opts: opts}
	expected := o.state(w.storage, revision)
	if len(got) != len(expected) {
		return fmt.Errorf("it has %d objects at revision %d, expected %d", len(got), revision, len(expected))
	}
	for i := range got {
		if !apiequality.Semantic.DeepEqual(&got[i], expected[i].pod) {
			return fmt.Errorf("object %d is %s/%s at %s, expected %s", i, got[i].Namespace, got[i].Name, got[i].ResourceVersion, expected[i])
		}
	}
	return nil
}
