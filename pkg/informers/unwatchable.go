// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// readLive is what to do about a kind that cannot be watched.
const readLive = "it cannot be cached; read it from the API server: name it in client.Options.Cache.DisableFor of the manager's client, or use the manager's GetAPIReader"

// verbsError says that the API server serves a kind without the verbs that a cache needs. It is a 405, as the
// answer to a request with one of these verbs.
type verbsError struct {
	key   Key
	verbs []string
}

// Error implements error.
func (e *verbsError) Error() string {
	return fmt.Sprintf("the API server serves %s with the verbs %s, so not with both list and watch: %s", e.key, strings.Join(e.verbs, ", "), readLive)
}

// Status implements apierrors.APIStatus.
func (e *verbsError) Status() metav1.Status { return notAllowed(e.Error()) }

// cacheable reports whether a resource can be listed and watched, as far as discovery says.
func cacheable(r *metav1.APIResource) bool {
	return len(r.Verbs) == 0 || slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// cannotBeWatched returns the reason if the newest error says that the API server refuses to list or watch the
// kind, or nil.
func (e *MapEntry) cannotBeWatched() *NotSyncedError {
	if failed := e.failures.Last(); failed == nil || CauseOf(failed.Err) != NotWatchable {
		return nil
	}
	return e.why()
}

// refuseFirst is refuse for an informer that has not synced. Nobody waits for the first list of a kind once an
// attempt has ended because the API server refuses to list it, or to watch it if it is optional.
func (e *MapEntry) refuseFirst() error {
	if err := e.refuse(); err != nil {
		return err
	}
	if failed := e.failures.Last(); failed != nil && failed.Ended && !e.synced() {
		if reason := e.cannotBeWatched(); reason != nil {
			return reason
		}
	}
	return nil
}

// watchFirst begins a list that is a watch. If the API server refuses that because the kind cannot be watched,
// the list that the Reflector asks for next fails: handlers would be told of objects, and then that these are gone.
func (s *boundSource) watchFirst(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.Watch(ctx, opts)
	if apierrors.IsMethodNotSupported(err) {
		s.refused.Store(&err)
	}
	return w, err
}

// listNext lists, unless that follows a refused watchFirst.
func (s *boundSource) listNext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if refused := s.refused.Swap(nil); refused != nil {
		return nil, *refused
	}
	return s.List(ctx, opts)
}
