// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission has the admission plugins of kube-apiserver that know built-in kinds. They read the stores of one server.
package admission
