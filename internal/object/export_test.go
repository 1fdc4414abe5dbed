// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import "github.com/tarn-dev/tarn/internal/flat"

// Dictionary returns the dictionary that a flat object was encoded with.
func (o Object) Dictionary() *flat.Dictionary { return o.flat.Dictionary() }
