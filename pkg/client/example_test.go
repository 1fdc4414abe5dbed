// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tarnclient "github.com/tarn-dev/tarn/pkg/client"
)

// A read waits for what another program has written and told the version of.
func ExampleNotOlderThan() {
	get := func(ctx context.Context, c client.Reader, key client.ObjectKey, version string) (again bool, err error) {
		var option tarnclient.ReadOption = tarnclient.NotOlderThan(version)
		if version == "" {
			option = tarnclient.AsCached
		}
		err = c.Get(ctx, key, &corev1.ConfigMap{}, option)
		late, unanswered := (*tarnclient.NotFreshError)(nil), (*tarnclient.UnansweredError)(nil)
		return errors.As(err, &late) || errors.As(err, &unanswered), err
	}
	_ = get
}
