// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiregistration has APIServices.
package apiregistration
