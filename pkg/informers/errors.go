// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
)

var (
	// errStopped is returned for what would need an informer that runs.
	errStopped = errors.New("the cache has been stopped")

	// errRemoved is the reason why waiting for an entry is in vain.
	errRemoved = errors.New("the informer was removed, or its cache stopped, before it had synced")
)

// MappingError says what an error of a RESTMapper about a kind means for the
// cache of that kind. It wraps err, so that meta.IsNoMatchError still tells.
func MappingError(kind fmt.Stringer, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the API server does not serve %s; if it is a custom resource, install its CRD first: %w", kind, err)
	}
	return fmt.Errorf("cannot find the resource of %s: %w", kind, err)
}
