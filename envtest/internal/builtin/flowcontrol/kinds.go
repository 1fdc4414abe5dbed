// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// FlowcontrolKinds are served and kept, as their users expect. The server itself does not queue requests by them.
func FlowcontrolKinds() []*kind.Kind {
	flowcontrol := func(kind string) schema.GroupVersionKind { return flowcontrolv1.SchemeGroupVersion.WithKind(kind) }
	common := kind.Rules{Status: true, Generation: true, StatusKeeps: []string{"metadata"}}
	return []*kind.Kind{
		{
			GVK: flowcontrol("FlowSchema"), Resource: "flowschemas", Cluster: true, Rules: common,
			Hooks: kind.Hooks{
				Defaults: kind.Typed(defaultFlowSchema), Validate: kind.TypedCheck(validateFlowSchema),
				ValidateStatus: kind.TypedCheck(validateFlowSchemaStatus),
			},
			Table: kind.Show("PriorityLevel,MatchingPrecedence,DistinguisherMethod,Age,MissingPL", flowSchemaCells),
		},
		{
			GVK: flowcontrol("PriorityLevelConfiguration"), Resource: "prioritylevelconfigurations", Cluster: true, Rules: common,
			Hooks: kind.Hooks{
				Defaults: kind.Typed(defaultPriorityLevel), Validate: kind.TypedCheck(validatePriorityLevel),
				ValidateStatus: kind.TypedCheck(validatePriorityLevelStatus),
			},
			Table: kind.Show("Type,NominalConcurrencyShares,Queues,HandSize,QueueLengthLimit,Age", priorityLevelCells),
		},
	}
}

// The defaults of kube-apiserver's pkg/apis/flowcontrol/v1.
const (
	defaultPrecedence        int32 = 1000
	defaultConcurrencyShares int32 = 30
	defaultHandSize          int32 = 8
	defaultQueues            int32 = 64
	defaultQueueLength       int32 = 50
)

func defaultFlowSchema(schema *flowcontrolv1.FlowSchema) {
	kind.Unset(&schema.Spec.MatchingPrecedence, defaultPrecedence)
}

func defaultPriorityLevel(level *flowcontrolv1.PriorityLevelConfiguration) {
	if exempt := level.Spec.Exempt; exempt != nil {
		kind.Missing(&exempt.NominalConcurrencyShares, 0)
		kind.Missing(&exempt.LendablePercent, 0)
	}
	limited := level.Spec.Limited
	if limited == nil {
		return
	}
	kind.Missing(&limited.NominalConcurrencyShares, defaultConcurrencyShares)
	kind.Missing(&limited.LendablePercent, 0)
	if queuing := limited.LimitResponse.Queuing; queuing != nil {
		kind.Unset(&queuing.HandSize, defaultHandSize)
		kind.Unset(&queuing.Queues, defaultQueues)
		kind.Unset(&queuing.QueueLengthLimit, defaultQueueLength)
	}
}

func flowSchemaCells(schema *flowcontrolv1.FlowSchema) []any {
	method, dangling := "<none>", "?"
	if schema.Spec.DistinguisherMethod != nil {
		method = string(schema.Spec.DistinguisherMethod.Type)
	}
	for _, condition := range schema.Status.Conditions {
		if condition.Type == flowcontrolv1.FlowSchemaConditionDangling {
			dangling = string(condition.Status)
			break
		}
	}
	return []any{
		schema.Spec.PriorityLevelConfiguration.Name, int64(schema.Spec.MatchingPrecedence), method, kind.AgeOf(schema), dangling,
	}
}

func priorityLevelCells(level *flowcontrolv1.PriorityLevelConfiguration) []any {
	var shares, queues, hand, length any = "<none>", "<none>", "<none>", "<none>"
	if limited := level.Spec.Limited; limited != nil {
		if limited.NominalConcurrencyShares != nil {
			shares = int64(*limited.NominalConcurrencyShares)
		}
		if queuing := limited.LimitResponse.Queuing; queuing != nil {
			queues, hand, length = int64(queuing.Queues), int64(queuing.HandSize), int64(queuing.QueueLengthLimit)
		}
	}
	return []any{string(level.Spec.Type), shares, queues, hand, length, kind.AgeOf(level)}
}
