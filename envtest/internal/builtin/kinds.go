// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"slices"
	"sync"
)

// kinds returns the table. Callers change neither the slice nor the rows.
func kinds() []*kind { return table() }

var table = sync.OnceValue(func() []*kind {
	return slices.Concat(
		coreKinds(), coreResourceKinds(), appsKinds(), batchKinds(), autoscalingKinds(), coordinationKinds(), discoveryKinds(), networkingKinds(),
		nodeKinds(), policyKinds(), rbacKinds(), schedulingKinds(), storageKinds(), admissionKinds(), certificatesKinds(),
		flowcontrolKinds(), resourceKinds(), apiregistrationKinds(),
	)
})

// inAll is the category of the resources that `kubectl get all` shows.
var inAll = []string{"all"}
