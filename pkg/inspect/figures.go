// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"github.com/tarn-dev/tarn/pkg/informers"
)

// figures are the figures of one informer, or the sums of several.
type figures struct {
	Objects int `json:"objects"`
	// ResourceVersion is the version up to which an informer has seen everything. Several have none in
	// common.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// AgeSeconds is the time since the API server last told anything, of several the longest. It is not
	// known of informers that the user made, and before the first list.
	AgeSeconds *float64 `json:"ageSeconds,omitempty"`
}

// handlerInfo is an event handler.
type handlerInfo struct {
	Namespace string `json:"namespace"`
	Type      string `json:"type"`
}

// indexInfo is an index of an informer.
type indexInfo struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func figuresOf(entry *informers.MapEntry) figures {
	f := figures{Objects: entry.Len(), ResourceVersion: entry.ResourceVersion()}
	if age, known := entry.Age(); known {
		seconds := age.Seconds()
		f.AgeSeconds = &seconds
	}
	return f
}

// add adds the figures of another informer.
func (f *figures) add(other figures) {
	f.Objects += other.Objects
	if other.AgeSeconds != nil && (f.AgeSeconds == nil || *f.AgeSeconds < *other.AgeSeconds) {
		f.AgeSeconds = other.AgeSeconds
	}
}

func handlersOf([]*informers.MapEntry) []handlerInfo { return []handlerInfo{} }

func indexesOf([]*informers.MapEntry) []indexInfo { return []indexInfo{} }
