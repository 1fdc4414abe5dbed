// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// checker compares the cache with the storage.
type checker struct {
	cacher *Cacher
	differ atomic.Bool
}

// consistent reports that lists may be answered by the cache.
func (k *checker) consistent() bool { return !k.differ.Load() }

// run compares now and then until ctx ends.
func (k *checker) run(ctx context.Context) {
	c := k.cacher
	if c.config.ConsistencyInterval == 0 {
		return
	}
	ticker := c.config.Clock.NewTicker(c.config.ConsistencyInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			if err := c.CheckConsistency(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrInconsistent) {
				c.config.Logger.Error(err, "Cannot compare the cache with the storage", "resource", c.config.GroupResource)
			}
		case <-ctx.Done():
			return
		}
	}
}

// ErrInconsistent is in the error of a comparison that found a difference.
var ErrInconsistent = errors.New("the cache does not hold what the storage does")

// CheckConsistency compares a digest of the cache with one of the storage at the same
// resource version. If they differ, which is an error of this package or of the storage, the
// error is ErrInconsistent, OnInconsistency is called, and lists are answered by the storage
// until a later comparison finds none. Other errors say why they could not be compared.
func (c *Cacher) CheckConsistency(ctx context.Context) error {
	differs, err := c.compare(ctx)
	switch {
	case err != nil:
		c.metrics.checked("error")
		return err
	case differs == nil:
		c.metrics.checked("success")
		c.checker.differ.Store(false)
		return nil
	}
	c.metrics.checked("failure")
	c.checker.differ.Store(true)
	if c.config.OnInconsistency != nil {
		c.config.OnInconsistency(differs)
	} else {
		c.config.Logger.Error(differs, "Lists are answered by the storage until cache and storage agree again", "resource", c.config.GroupResource)
	}
	return differs
}

// compare returns how the cache differs; err says why that is not known.
func (c *Cacher) compare(ctx context.Context) (differs, err error) {
	if _, err := c.ready.check(); err != nil {
		return nil, err
	}
	here := newDigest()
	state := c.engine.Snapshot()
	for item := range state.Items("", "") {
		obj, err := c.elements.object(item.Value)
		if err != nil {
			return fmt.Errorf("%w: %s at resource version %d cannot be read: %w", ErrInconsistent, item.Key, state.Revision(), err), nil
		}
		if err := here.add(obj); err != nil {
			return nil, err
		}
	}
	there, err := c.storageDigest(ctx, state.Revision())
	if err != nil {
		return nil, err
	}
	if *here != *there {
		return fmt.Errorf("%w: %s at resource version %d has %s in the cache, %s in the storage",
			ErrInconsistent, c.config.GroupResource, state.Revision(), here, there), nil
	}
	return nil, nil
}

// storageDigest reads the storage at a revision.
func (c *Cacher) storageDigest(ctx context.Context, revision uint64) (*digest, error) {
	d := newDigest()
	opts := storage.ListOptions{
		ResourceVersion:      strconv.FormatUint(revision, 10),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate:            storage.Everything,
		Recursive:            true,
	}
	opts.Predicate.Limit = listPageSize
	for {
		list := c.config.NewListFunc()
		if err := c.storage.GetList(ctx, c.config.ResourcePrefix, opts, list); err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, d.add); err != nil {
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

// digest is a short form of which objects there are, in any order.
type digest struct {
	objects int
	sum     uint64
}

func newDigest() *digest { return &digest{} }

func (d *digest) String() string { return fmt.Sprintf("%d objects with digest %x", d.objects, d.sum) }

// add takes an object in.
func (d *digest) add(obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	h := fnv.New64a()
	for _, part := range []string{m.GetNamespace(), m.GetName(), string(m.GetUID()), m.GetResourceVersion()} {
		_, _ = io.WriteString(h, part) // a hash has no errors
		_, _ = h.Write([]byte{0})
	}
	d.objects++
	d.sum += h.Sum64()
	return nil
}
