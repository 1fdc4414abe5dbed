// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live reads single objects from the API server, for a cache that was asked for an object
// that it does not hold.
//
// Callers that ask for the same object at the same time share one request. A NotFound is remembered
// for [RememberFor], so that a controller that asks in a loop makes few requests. At most
// [Remembered] such answers are kept, which is some hundred kilobytes.
//
// The files: reader.go has the [Reader], flight.go one request and its waiting callers.
package live
