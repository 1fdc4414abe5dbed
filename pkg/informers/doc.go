// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers keeps the informers of a cache.
//
// A [Map] holds the informers of one scope: one namespace or all of them, with
// one set of selectors and options. Its key is a kind together with the
// [Representation] in which it is cached; its values are [MapEntry], which pair
// a SharedIndexInformer with the reader of its store.
//
// # Concurrency
//
// A Map is safe for concurrent use. Informers may be added, removed and waited
// for before, while and after the map is started. Start owns every goroutine of
// the map: it returns once all of them have ended, those of removed informers
// included.
package informers
