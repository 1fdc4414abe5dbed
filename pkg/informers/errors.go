// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/served"
)

var (
	// errStopped is the error of a call that would have to start an informer after the map has
	// stopped.
	errStopped = errors.New("the cache has been stopped")

	// errRemoved is the error of a wait for an informer that will never sync.
	errRemoved = errors.New("the informer was removed, or its cache stopped, before it had synced")
)

// Mapping returns what mapper says of a kind, see [served.Resolver]. If ctx ends first, the error is a *NotSyncedError with the cause
// Timeout; namespace is for its text.
func Mapping(ctx context.Context, r *served.Resolver, mapper meta.RESTMapper, key Key, namespace string) (*meta.RESTMapping, error) {
	begun := time.Now()
	mapping, err := r.Mapping(ctx, mapper, key.GroupVersionKind)
	if errors.Is(err, served.ErrGaveUp) {
		err = &NotSyncedError{
			Key: key, Namespace: namespace, Cause: Timeout, Since: begun, Attempts: 1,
			Err: fmt.Errorf("cannot find the resource of %s: %w", key, err),
		}
	}
	return mapping, err
}

// MappingError returns the error of a cache for an error of a RESTMapper. It says what that error
// means for the kind, and wraps it, so that meta.IsNoMatchError still recognizes it. A time-out of discovery is a
// *NotSyncedError with the cause Timeout, as is the error of a caller who does not wait for the mapper any longer, which
// is returned as it is.
func MappingError(key Key, err error) error {
	gaveUp := (*NotSyncedError)(nil)
	switch {
	case errors.As(err, &gaveUp):
		return err
	case !meta.IsNoMatchError(err) && CauseOf(err) == Timeout:
		return &NotSyncedError{Key: key, Cause: Timeout, Since: time.Now(), Attempts: 1, Err: fmt.Errorf("cannot find the resource of %s: the API server has not answered discovery in time: %w", key, err)}
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("cannot find the resource of %s: %w", key, err)
	case key.Kind == strings.ToLower(key.Kind):
		return fmt.Errorf("the API server does not serve %s; a kind is written as in a manifest, such as ConfigMap for configmaps: %w", key, err)
	}
	return fmt.Errorf("the API server does not serve %s; if it is a custom resource, install its CRD first: %w", key, err)
}

// MayCome reports whether an error of a RESTMapper says that a kind is not served, or that it cannot be served
// now: it is unavailable, or discovery is not answered in time, by a server behind the API server (504) or at all.
func MayCome(err error) bool {
	if gaveUp := (*NotSyncedError)(nil); errors.As(err, &gaveUp) && gaveUp.Cause == Timeout {
		return false // the caller does not wait any longer
	}
	return meta.IsNoMatchError(err) || served.MayBeAway(err) || isTimeout(err)
}

// awayError says that a kind cannot be served now. meta.IsNoMatchError recognizes it, as the error of each
// kind that is not served.
type awayError struct {
	key Key
	err error // the answer of the API server
}

// Error implements error.
func (e *awayError) Error() string {
	name := e.key.Version + "." + e.key.Group
	if isTimeout(e.err) {
		return fmt.Sprintf("the API server has not answered discovery of %s in time: %v", e.key, e.err)
	}
	return fmt.Sprintf("the API server cannot serve %s now, and if it serves other kinds, the conditions of the APIService %s say why: %v", e.key, name, e.err)
}

// Unwrap returns what it means and why.
func (e *awayError) Unwrap() []error {
	return []error{&meta.NoKindMatchError{GroupKind: e.key.GroupKind(), SearchedVersions: []string{e.key.Version}}, e.err}
}

// NotRegistered returns the error for a Go type that is not in the scheme. The error advises to add
// the type. Otherwise is text about another way, or empty. runtime.IsNotRegisteredError recognizes
// the error unless it is wrapped.
func NotRegistered(scheme *runtime.Scheme, goType, otherwise string) error {
	return runtime.NewNotRegisteredErrForType(scheme.Name(), advised{
		text: fmt.Sprintf("%s (add it with the AddToScheme function of its API package%s)", goType, otherwise),
	})
}

// advised is a reflect.Type whose name contains advice. Package runtime builds the text of its
// error from the names of the type and the scheme, and quotes the name of the scheme, so the advice
// stands in the name of the type.
//
// Method and MethodByName hide those of reflect.Type. If they could be called, the linker would keep
// every exported method of every type in the program.
type advised struct {
	reflect.Type // nil
	text         string
}

func (a advised) String() string { return a.text }

func (advised) Method(int) reflect.Method { return reflect.Method{} }

func (advised) MethodByName(string) (reflect.Method, bool) { return reflect.Method{}, false }
