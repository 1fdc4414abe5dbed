// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"slices"
	"sync"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/admissionregistration"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/apiregistration"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/apps"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/autoscaling"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/batch"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/certificates"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/coordination"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/discovery"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/flowcontrol"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/networking"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/node"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/policy"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/rbac"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/resource"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/scheduling"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/storage"
)

// kinds returns the table. Callers change neither the slice nor the rows.
func kinds() []*kind.Kind { return table() }

var table = sync.OnceValue(func() []*kind.Kind {
	return slices.Concat(
		core.CoreKinds(), core.CoreResourceKinds(), apps.AppsKinds(), batch.BatchKinds(), autoscaling.AutoscalingKinds(), coordination.CoordinationKinds(), discovery.DiscoveryKinds(), networking.NetworkingKinds(),
		node.NodeKinds(), policy.PolicyKinds(), rbac.RbacKinds(), scheduling.SchedulingKinds(), storage.StorageKinds(), admissionregistration.AdmissionKinds(), certificates.CertificatesKinds(),
		flowcontrol.FlowcontrolKinds(), resource.ResourceKinds(), apiregistration.ApiregistrationKinds(),
	)
})
