// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import "k8s.io/apiserver/pkg/registry/rest"

// columns is what a kind shows as a Table. The zero value shows name and age.
type columns struct{}

// tableConvertor returns the row's convertor.
func (k *kind) tableConvertor() rest.TableConvertor {
	return rest.NewDefaultTableConvertor(k.groupResource())
}
