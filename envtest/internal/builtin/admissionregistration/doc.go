// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissionregistration has the configurations of webhooks and policies.
package admissionregistration
