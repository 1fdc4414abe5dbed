// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/resolver"
)

var (
	// errStopped is the error of a call that would have to start an informer after the map has stopped.
	errStopped = errors.New("the cache has been stopped")

	// errRemoved is the error of a wait for an informer that will never sync.
	errRemoved = errors.New("the informer was removed, or its cache stopped, before it had synced")
)

// MappingError returns the error of a cache for an error of a RESTMapper that was asked for the kind. It says what that error
// means for the kind, and wraps it, so that meta.IsNoMatchError still recognizes it. If discovery has not answered in time, it
// is a *NotSyncedError with the cause Timeout.
func (k Key) MappingError(err error) error {
	switch {
	case errors.Is(err, resolver.ErrGaveUp):
		return k.timeout(fmt.Errorf("cannot find the resource of %s: %w", k, err))
	case !meta.IsNoMatchError(err) && causeOf(err) == Timeout:
		return k.timeout(fmt.Errorf("cannot find the resource of %s: the API server has not answered discovery in time: %w", k, err))
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("cannot find the resource of %s: %w", k, err)
	case k.Kind == strings.ToLower(k.Kind):
		return fmt.Errorf("the API server does not serve %s; a kind is written as in a manifest, such as ConfigMap for configmaps: %w", k, err)
	}
	return fmt.Errorf("the API server does not serve %s; if it is a custom resource, install its CRD first: %w", k, err)
}

// timeout returns the error of a kind whose resource nobody has told in time.
func (k Key) timeout(err error) *NotSyncedError {
	return &NotSyncedError{Key: k, Cause: Timeout, Since: time.Now(), Attempts: 1, Err: err}
}

// awayError says that a kind cannot be served now. meta.IsNoMatchError recognizes it, as the error of each kind that is not served.
type awayError struct {
	key Key
	err error // the answer of the API server
}

// Error implements error.
func (e *awayError) Error() string {
	name := e.key.Version + "." + e.key.Group
	if listwatch.IsTimeout(e.err) {
		return fmt.Sprintf("the API server has not answered discovery of %s in time: %v", e.key, e.err)
	}
	return fmt.Sprintf("the API server cannot serve %s now, and if it serves other kinds, the conditions of the APIService %s say why: %v", e.key, name, e.err)
}

// Unwrap returns what it means and why.
func (e *awayError) Unwrap() []error {
	return []error{&meta.NoKindMatchError{GroupKind: e.key.GroupKind(), SearchedVersions: []string{e.key.Version}}, e.err}
}
