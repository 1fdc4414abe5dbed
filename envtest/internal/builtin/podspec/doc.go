// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podspec has the rules, defaults and warnings of a Pod's spec, which Pods and the templates of workloads share.
package podspec
