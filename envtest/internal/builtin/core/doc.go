// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core has the rows of the core group. The rules of Services, Endpoints and Events are in packages service and events. A file holds what belongs to one kind or to one stage.
package core
