// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func CoordinationKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Resource: "leases",
		Rules: kind.Rules{PutCreates: true, NeedVersion: true, AnyFinalizers: true},
		Hooks: kind.Hooks{Prepare: kind.TypedPrepare(prepareLease), Validate: kind.TypedCheck(validateLease)},
		Table: kind.Show("Holder,Age", leaseCells),
	}}
}

// prepareLease drops the fields of a feature that is off.
func prepareLease(_ context.Context, lease, _ *coordinationv1.Lease) {
	lease.Spec.Strategy, lease.Spec.PreferredHolder = nil, nil
}

func leaseCells(lease *coordinationv1.Lease) []any {
	return []any{kind.Value(lease.Spec.HolderIdentity, ""), kind.AgeOf(lease)}
}

func validateLease(lease, _ *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(kind.SpecPath("leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	return append(errs, kind.NotNegative(lease.Spec.LeaseTransitions, kind.SpecPath("leaseTransitions"))...)
}
