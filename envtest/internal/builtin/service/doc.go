// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service has Services and Endpoints: rules, addresses, ports and families.
package service
