// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource has the kinds of the group resource.k8s.io.
package resource
