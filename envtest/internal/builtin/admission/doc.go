// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission has the admission plugins of kube-apiserver that know built-in kinds. They read the stores of one server.
//
// To add one, add it to plugins.go in kube-apiserver's order, its name to plugins.go of internal/flags and to the documentation of
// package builtin, and specs to admission_builtin_test.go of envtest. A plugin with a configuration or a client is made in
// internal/admission. Take it out of docs/fidelity.md.
package admission
