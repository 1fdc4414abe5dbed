// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package pending_test

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/pending"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// thing is an object: its UID, its size, a label, and whether it has a deletionTimestamp.
type thing struct {
	uid     types.UID
	size    int
	label   string
	leaving bool
}

type (
	entry = pending.Entry[thing]
	item  = watchcache.Item[thing]
)
