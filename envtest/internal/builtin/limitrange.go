// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// prepareLimitRange gives one without a name a name.
func prepareLimitRange(_ context.Context, limits, old *corev1.LimitRange) {
	if old == nil && limits.Name == "" {
		limits.Name = string(uuid.NewUUID())
	}
}
