// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// InstallCRDs creates the definitions, or updates the existing ones. It returns when the server serves and
// discovers every version of them that is to be served, in its current form. It does not change its arguments. The
// error is ErrCRDNotEstablished if the server accepts a definition but cannot serve it, because one of its names is
// taken.
func (e *Environment) InstallCRDs(ctx context.Context, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	if slices.Contains(crds, nil) {
		return errors.New("install CRDs: one of them is nil: leave it out")
	}
	r, err := e.parts()
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	return r.server.Installer.Install(ctx, crds)
}
