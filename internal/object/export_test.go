// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// Dictionary returns the dictionary that a flat object was encoded with.
func (o Object) Dictionary() *dictionary.Dictionary { return o.flat.Dictionary() }

// Taken returns how many bytes of the budget are taken.
func (b *Budget) Taken() int64 { return b.taken.Load() }
