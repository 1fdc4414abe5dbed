// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Resolver asks a RESTMapper, which knows no context, for callers that have one. The zero value is ready to use; it
// is safe for concurrent use.
//
// There is one question for a kind at a time, in a goroutine that ends when the mapper returns. Nobody waits for it
// longer than they want, the end of a map neither. The mapper that package cache makes gives up each request after 32
// seconds. One that never returns keeps the goroutine, and a few words for each caller who has given up: that of a
// manager asks with the manager's HTTP client, which has no time-out unless rest.Config.Timeout is set.
type Resolver struct{ asking singleflight.Group }

// Mapping returns what mapper says of a kind, which others may have asked at the same time: it is shared. The error is
// the mapper's, or a *NotSyncedError with the cause Timeout if ctx ends first; namespace is for its text.
func (r *Resolver) Mapping(ctx context.Context, mapper meta.RESTMapper, key Key, namespace string) (*meta.RESTMapping, error) {
	begun := time.Now()
	answer := r.asking.DoChan(key.GroupVersionKind.String(), func() (any, error) {
		return mapper.RESTMapping(key.GroupKind(), key.Version)
	})
	select {
	case a := <-answer:
		mapping, _ := a.Val.(*meta.RESTMapping)
		return mapping, a.Err
	case <-ctx.Done():
		return nil, &NotSyncedError{
			Key: key, Namespace: namespace, Cause: Timeout, Since: begun, Attempts: 1,
			Err: fmt.Errorf("cannot find the resource of %s: the API server has not answered discovery yet: %w", key, context.Cause(ctx)),
		}
	}
}
