// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// flowcontrolKinds are served and kept, as their users expect. The server itself does not queue requests by them.
func flowcontrolKinds() []*kind {
	flowcontrol := func(kind string) schema.GroupVersionKind { return flowcontrolv1.SchemeGroupVersion.WithKind(kind) }
	common := rules{status: true, generation: true, statusKeeps: []string{"metadata"}}
	return []*kind{
		{
			gvk: flowcontrol("FlowSchema"), resource: "flowschemas", cluster: true, rules: common,
			hooks: hooks{
				defaults: typed1(defaultFlowSchema), validate: typedCheck(validateFlowSchema),
				validateStatus: typedCheck(validateFlowSchemaStatus),
			},
			table: show("PriorityLevel,MatchingPrecedence,DistinguisherMethod,Age,MissingPL", flowSchemaCells),
		},
		{
			gvk: flowcontrol("PriorityLevelConfiguration"), resource: "prioritylevelconfigurations", cluster: true, rules: common,
			hooks: hooks{
				defaults: typed1(defaultPriorityLevel), validate: typedCheck(validatePriorityLevel),
				validateStatus: typedCheck(validatePriorityLevelStatus),
			},
			table: show("Type,NominalConcurrencyShares,Queues,HandSize,QueueLengthLimit,Age", priorityLevelCells),
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
	unset(&schema.Spec.MatchingPrecedence, defaultPrecedence)
}

func defaultPriorityLevel(level *flowcontrolv1.PriorityLevelConfiguration) {
	if exempt := level.Spec.Exempt; exempt != nil {
		missing(&exempt.NominalConcurrencyShares, 0)
		missing(&exempt.LendablePercent, 0)
	}
	limited := level.Spec.Limited
	if limited == nil {
		return
	}
	missing(&limited.NominalConcurrencyShares, defaultConcurrencyShares)
	missing(&limited.LendablePercent, 0)
	if queuing := limited.LimitResponse.Queuing; queuing != nil {
		unset(&queuing.HandSize, defaultHandSize)
		unset(&queuing.Queues, defaultQueues)
		unset(&queuing.QueueLengthLimit, defaultQueueLength)
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
		schema.Spec.PriorityLevelConfiguration.Name, int64(schema.Spec.MatchingPrecedence), method, ageOf(schema), dangling,
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
	return []any{string(level.Spec.Type), shares, queues, hand, length, ageOf(level)}
}
