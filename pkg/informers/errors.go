// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	// errStopped is returned for what would need an informer that runs.
	errStopped = errors.New("the cache has been stopped")

	// errRemoved is the reason why waiting for an entry is in vain.
	errRemoved = errors.New("the informer was removed, or its cache stopped, before it had synced")
)

// MappingError says what an error of a RESTMapper about a kind means for the
// cache of that kind. It wraps err, so that meta.IsNoMatchError still tells.
func MappingError(key Key, err error) error {
	switch {
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("cannot find the resource of %s: %w", key, err)
	case key.Kind == strings.ToLower(key.Kind):
		return fmt.Errorf("the API server does not serve %s; a kind is written as in a manifest, such as ConfigMap for configmaps: %w", key, err)
	}
	return fmt.Errorf("the API server does not serve %s; if it is a custom resource, install its CRD first: %w", key, err)
}

// NotRegistered is the error for a Go type that is not in the scheme; otherwise is what
// else than to add it the caller could do, or empty. runtime.IsNotRegisteredError tells it,
// as long as it is not wrapped.
func NotRegistered(scheme *runtime.Scheme, goType, otherwise string) error {
	return runtime.NewNotRegisteredErrForType(scheme.Name(), advised{
		text: fmt.Sprintf("%s (add it with the AddToScheme function of its API package%s)", goType, otherwise),
	})
}

// advised is a type whose name says what to do. Package runtime makes the text of its error
// of the names of type and scheme, and quotes that of the scheme.
type advised struct {
	reflect.Type // nil
	text         string
}

func (a advised) String() string { return a.text }
