// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// prepareDaemonSet counts the changes of the template in an annotation, as old clients expect. A new one says where the count begins.
func prepareDaemonSet(_ context.Context, ds, old *appsv1.DaemonSet) {
	podspec.DropDisabled(&ds.Spec.Template.Spec)
	counted := ds
	if old != nil {
		counted = old
	}
	count, err := strconv.ParseInt(counted.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil || count < 1 {
		count = 1
	}
	if old != nil {
		if !apiequality.Semantic.DeepEqual(ds.Spec.Template, old.Spec.Template) {
			count++
		}
	}
	ds.Annotations = kind.Merged(ds.Annotations, map[string]string{appsv1.DeprecatedTemplateGeneration: strconv.FormatInt(count, 10)})
}
