// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store has the stores of informers, from which readers read.
//
// An [Engine] is the store of our own informer. It answers selectors from posting lists, see package postings, and
// builds those of a label when a list asks for it. An [Indexer] is the store of an informer that the user supplies, and
// gives the same answers. Both keep the states of lists with pages to come, as long as these hold little, count their
// reads, and tell how much memory they take. All is safe for concurrent use.
//
// # Files
//
//   - store.go says what a reader reads, with freshness.go and errors.go for what is too old. engine.go and indexer.go are the two stores.
//   - kept_states.go keeps the states of lists; retained.go says what they hold, and budget.go what they may hold.
//   - plan.go says how a list would be answered, reads.go how lists were; stats.go has the figures.
package store
