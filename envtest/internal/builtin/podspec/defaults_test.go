// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"a":                       corev1.PullAlways,
		"a:latest":                corev1.PullAlways,
		"a:1":                     corev1.PullIfNotPresent,
		"host:5000/a":             corev1.PullAlways,
		"host:5000/a:1":           corev1.PullIfNotPresent,
		"a@sha256:0123456789":     corev1.PullIfNotPresent,
		"host:1/a:2@sha256:01234": corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
