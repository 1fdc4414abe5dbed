// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import "github.com/tarn-dev/tarn/internal/metrics"

// measured is an entry as its metrics see it.
type measured struct{ *MapEntry }

var _ metrics.Source = measured{}

// Series implements metrics.Source.
func (m measured) Series() metrics.Series {
	return metrics.Series{GroupVersionKind: m.key.GroupVersionKind, Representation: m.key.Representation.String(), Namespace: m.scope.namespace}
}

// Sample implements metrics.Source.
func (m measured) Sample() metrics.Sample {
	s := m.Stats()
	phase, _ := m.Phase()
	made := metrics.Sample{
		Phase: phase.Label(), Age: -1,
		Informer: s.Informer, Reads: s.Reads, Requests: s.Requests, Memory: s.Memory(),
		Unconfirmed: map[string]uint64{"deadline": s.Unconfirmed, "budget": s.NoRoom},
	}
	if why := m.NotSynced(); why != nil {
		made.Cause = why.Cause.Label()
	}
	if age, known := m.Age(); known && phase != Dormant {
		made.Age = age
	}
	if s.Informer != nil {
		made.Incomplete = map[string]uint64{TransformFailed.Label(): uint64(s.Informer.Lost), IndexFailed.Label(): uint64(s.Informer.Unindexed)}
	}
	return made
}
