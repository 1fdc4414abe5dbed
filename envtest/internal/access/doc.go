// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access tells who asks, and what they may do: certificates and tokens of users, and RBAC as the server's own objects
// have it. It makes the credentials too.
package access
