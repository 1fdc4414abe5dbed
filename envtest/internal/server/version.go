// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"
)

// Version is the version that a server reports.
func Version() string {
	return release{compatibility.DefaultBuildEffectiveVersion()}.Info().GitVersion
}

// release is the version that the server reports. The libraries know only the minor version that they belong to.
type release struct {
	basecompatibility.EffectiveVersion
}

// Info implements basecompatibility.EffectiveVersion.
func (r release) Info() *apimachineryversion.Info {
	info := r.EffectiveVersion.Info()
	info.GitVersion = fmt.Sprintf("v%s.%s.0+tarn", info.Major, info.Minor)
	return info
}
