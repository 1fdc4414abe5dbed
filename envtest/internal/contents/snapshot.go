// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

// Snapshot is what there was at one moment. It never changes, and keeps nothing of the server in memory.
type Snapshot struct {
	origin  *origin
	entries []etcd.Entry // sorted by key
	Bytes   int64
}

// Len returns how many objects there were.
func (s *Snapshot) Len() int { return len(s.entries) }

// origin is whose snapshots are: each server has one of its own. A snapshot outlives its server, and must not keep it in memory.
type origin struct{ _ byte } // a type without a size would not have addresses of its own
