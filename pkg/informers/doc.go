// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers keeps the informers of a cache.
//
// A [Map] holds the informers of one scope: one namespace or all of them, with
// one set of selectors and options. Its key is a kind together with the
// [Representation] in which it is cached; its values are [MapEntry], which pair
// a SharedIndexInformer with the reader of its store. That informer is our own, of
// package internal/informer, unless the user supplies one; package internal/listwatch
// lists and watches for it.
//
// # Contract
//
// A Map is safe for concurrent use. Informers may be added, removed and waited
// for before, while and after the map is started. Start owns every goroutine of
// the map: it returns once all of them have ended, those of removed informers
// included.
//
// An informer that does not sync says why: the error of a wait that times out has what
// listing or watching last failed with.
//
// # Files
//
//   - map.go has Map, options.go its options, entry.go the informer and the reader of a key.
//   - representation.go has Key and Representation; source.go chooses how a key is listed
//     and watched.
//   - metrics.go counts for Prometheus; errors.go has the errors that users meet.
package informers
