// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolver asks a RESTMapper which resource a kind has.
package resolver

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/contain"
	"github.com/tarn-dev/tarn/internal/listwatch"
)

// Resolver asks a RESTMapper, which knows no context, for callers that have one. The zero value is ready to use. It is
// safe for concurrent use.
//
// There is one question for a kind at a time. Callers that come meanwhile share the next question, because the answer to
// the first may be older than they are, for instance older than a CRD. A question is asked in a goroutine that ends when
// the mapper has returned. The mapper that package cache makes gives up each request after 32 seconds. A manager's
// mapper asks with the manager's HTTP client, which has no time-out unless rest.Config.Timeout is set. A mapper that
// never returns keeps the goroutine. If a mapper panics, or ends its goroutine, its callers get an error.
type Resolver struct{ questions singleflight.Group }

// ErrGaveUp says that the context of a call has ended before the RESTMapper has answered.
var ErrGaveUp = errors.New("the API server has not answered discovery yet")

// Mapping returns what mapper says of a kind, asked after the call of Mapping began. Others may have asked the same: it is
// shared. The error is the mapper's, or wraps ErrGaveUp if ctx ends first.
func (r *Resolver) Mapping(ctx context.Context, mapper meta.RESTMapper, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	for fresh := false; ; fresh = true { // what was under way has ended
		answer := r.questions.DoChan(gvk.String(), func() (any, error) {
			fresh = true
			var asked *meta.RESTMapping
			err := contain.Call(fmt.Sprintf("the RESTMapper, asked for %s,", gvk), func() (err error) {
				asked, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
				return err
			})
			return asked, err
		})
		select {
		case result := <-answer:
			if fresh {
				return result.Val.(*meta.RESTMapping), result.Err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrGaveUp, context.Cause(ctx))
		}
	}
}

// MappingTo returns the mapping of a kind to a resource in its version of the group.
func MappingTo(gvk schema.GroupVersionKind, resource string, scope meta.RESTScope) *meta.RESTMapping {
	return &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(resource), GroupVersionKind: gvk, Scope: scope}
}

// Guess returns a mapping for a kind that is absent, for the time until it is not.
func Guess(gvk schema.GroupVersionKind) *meta.RESTMapping {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return MappingTo(gvk, plural.Resource, meta.RESTScopeNamespace)
}

// MayCome reports whether an error of a RESTMapper says that a kind is not served, or that it cannot be served now: it is
// unavailable, or discovery is not answered in time, by a server behind the API server (504) or at all. A caller that does not
// wait any longer knows neither.
func MayCome(err error) bool {
	return !errors.Is(err, ErrGaveUp) && (meta.IsNoMatchError(err) || MayBeAway(err) || listwatch.IsTimeout(err))
}

// MayBeAway reports whether err is the answer that a server behind the API server is away, or does not answer in time
// (503 or 504). It is false if the API server itself does not answer.
func MayBeAway(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}
