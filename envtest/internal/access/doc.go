// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access authenticates and authorizes requests: by certificates and tokens of users, and by RBAC as the server's own objects
// have it. It makes the credentials too.
package access
