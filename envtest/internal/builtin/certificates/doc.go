// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates has CertificateSigningRequests.
package certificates
