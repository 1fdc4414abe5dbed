// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission puts the admission plugins of a server into their order, and lets those of policies begin anew. It knows
// the connections to webhooks.
package admission
