// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Get implements storage.Interface. Without a resource version it reads the storage;
// otherwise it waits until the cache is not older than that.
func (c *Cacher) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	if opts.ResourceVersion == "" {
		return c.config.Storage.Get(ctx, key, opts, into)
	}
	if _, err := c.ready.check(); err != nil {
		return c.config.Storage.Get(ctx, key, opts, into)
	}
	revision, err := c.config.Versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return err
	}
	if key, err = storage.PrepareKey(c.config.ResourcePrefix, key, false); err != nil {
		return err
	}
	if err := c.waiter.untilFresh(ctx, revision); err != nil {
		return err
	}
	value, err := conversion.EnforcePtr(into)
	if err != nil {
		return err
	}
	snapshot := c.engine.Snapshot() // the object and the revision are of one moment
	item, ok := snapshot.Get(key)
	if ok {
		return c.form.Fill(item.Value, value)
	}
	value.Set(reflect.Zero(value.Type()))
	if opts.IgnoreNotFound {
		return nil
	}
	return storage.NewKeyNotFoundError(key, int64(snapshot.Revision()))
}

// keys returns the keys of all objects, not older than now. The storage estimates the size
// of the resource by them.
func (c *Cacher) keys(ctx context.Context) ([]string, error) {
	revision, err := c.config.Storage.GetCurrentResourceVersion(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.waiter.untilFresh(ctx, revision); err != nil {
		return nil, err
	}
	snapshot := c.engine.Snapshot()
	keys := make([]string, 0, snapshot.Len())
	for item := range snapshot.Items("", "") {
		keys = append(keys, item.Key)
	}
	return keys, nil
}
