// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// cannotBeWatched returns the reason if the newest error says that the API server refuses to list or watch the kind, or nil.
func (e *MapEntry) cannotBeWatched() *NotSyncedError {
	if failed := e.failures.Last(); failed == nil || causeOf(failed.Err) != NotWatchable {
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
