// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/pkg/cacher/internal/dispatch"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// checker compares the cache with the storage.
type checker struct {
	config  *Config
	form    *element.Form
	engine  *dispatch.Engine
	ready   *readiness
	metrics *metrics
	differ  atomic.Bool // the last comparison found a difference
}

// consistent reports that lists may be answered by the cache.
func (k *checker) consistent() bool { return !k.differ.Load() }

// run compares at each ConsistencyInterval until ctx ends.
func (k *checker) run(ctx context.Context) {
	if k.config.ConsistencyInterval == 0 {
		return
	}
	ticker := k.config.Clock.NewTicker(k.config.ConsistencyInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			if err := k.check(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrInconsistent) {
				k.config.Logger.Error(err, "Cannot compare the cache with the storage", "resource", k.config.GroupResource)
			}
		case <-ctx.Done():
			return
		}
	}
}

// ErrInconsistent is in the error of a comparison that found a difference.
var ErrInconsistent = errors.New("the cache does not hold what the storage does")

func (k *checker) check(ctx context.Context) error {
	differs, err := k.compare(ctx)
	switch {
	case err != nil:
		k.metrics.checked("error")
		return err
	case differs == nil:
		k.metrics.checked("success")
		k.differ.Store(false)
		return nil
	}
	k.metrics.checked("failure")
	k.differ.Store(true)
	if k.config.OnInconsistency != nil {
		k.config.OnInconsistency(differs)
	} else {
		k.config.Logger.Error(differs, "Lists are answered by the storage until cache and storage agree again", "resource", k.config.GroupResource)
	}
	return differs
}

// compare returns how the cache differs; err says why that is not known.
func (k *checker) compare(ctx context.Context) (differs, err error) {
	if _, err := k.ready.check(); err != nil {
		return nil, err
	}
	here := digests{}
	state := k.engine.Snapshot()
	for item := range state.Items("", "") {
		obj, err := k.form.Copy(item.Value) // codecs write the version into what they encode
		if err != nil {
			return fmt.Errorf("%w: %s at resource version %d cannot be read: %w", ErrInconsistent, item.Key, state.Revision(), err), nil
		}
		if err := here.add(obj, k.config.Codec); err != nil {
			return nil, err
		}
	}
	there, err := k.storageDigests(ctx, state.Revision())
	if err != nil {
		return nil, err
	}
	if found := here.differences(there); len(found) > 0 {
		return fmt.Errorf("%w: %s at resource version %d: %s", ErrInconsistent, k.config.GroupResource, state.Revision(), some(found)), nil
	}
	return nil, nil
}

// storageDigests reads the storage at a revision.
func (k *checker) storageDigests(ctx context.Context, revision uint64) (digests, error) {
	d := digests{}
	opts := storage.ListOptions{
		ResourceVersion:      strconv.FormatUint(revision, 10),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate:            storage.Everything,
		Recursive:            true,
	}
	opts.Predicate.Limit = listPageSize
	for {
		list := k.config.NewListFunc()
		if err := k.config.Storage.GetList(ctx, k.config.ResourcePrefix, opts, list); err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(obj runtime.Object) error { return d.add(obj, k.config.Codec) }); err != nil {
			return nil, err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return nil, err
		}
		if m.GetContinue() == "" {
			return d, nil
		}
		opts.Predicate.Continue = m.GetContinue()
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	}
}
