// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flowcontrol has FlowSchemas and PriorityLevelConfigurations.
package flowcontrol
