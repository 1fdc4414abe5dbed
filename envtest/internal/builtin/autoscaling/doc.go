// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package autoscaling has the kinds of the group autoscaling, whose first version is converted from and to the second.
package autoscaling
