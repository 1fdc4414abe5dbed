// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apiregistration

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/validation"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func ApiregistrationKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"), Resource: "apiservices", Categories: []string{"api-extensions"}, Cluster: true,
		Rules: kind.Rules{
			Status: true, NeedVersion: true, AnyMeta: true, AnyFinalizers: true,
			StatusKeeps: []string{"metadata"},
		},
		Hooks: kind.Hooks{Prepare: kind.TypedPrepare(prepareAPIService), ValidateRequest: validateAPIService, ValidateStatus: validateAPIServiceStatus},
		Table: kind.Show("Service,Available,Age", apiServiceCells),
	}}
}

// prepareAPIService makes what this server serves itself available when it is created.
func prepareAPIService(_ context.Context, service, old *apiregistrationv1.APIService) {
	if old == nil && service.Spec.Service == nil {
		helper.SetAPIServiceCondition(service, helper.NewLocalAvailableAPIServiceCondition())
	}
}

// The checks are those of Kubernetes' own library, for its internal type.

func validateAPIService(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	service := internalAPIService(obj)
	if old == nil {
		return validation.ValidateAPIService(ctx, service)
	}
	return validation.ValidateAPIServiceUpdate(ctx, service, internalAPIService(old))
}

func validateAPIServiceStatus(obj, _ runtime.Object) field.ErrorList {
	return validation.ValidateAPIServiceStatus(&internalAPIService(obj).Status, field.NewPath("status"))
}

func internalAPIService(obj runtime.Object) *apiregistration.APIService {
	internal := &apiregistration.APIService{}
	service := kind.MustBe[*apiregistrationv1.APIService](obj).DeepCopy()
	if err := apiregistrationv1.Convert_v1_APIService_To_apiregistration_APIService(service, internal, nil); err != nil {
		panic("builtin: convert an APIService: " + err.Error()) // its fields are the same
	}
	return internal
}

func apiServiceCells(service *apiregistrationv1.APIService) []any {
	by := "Local"
	if to := service.Spec.Service; to != nil {
		by = to.Namespace + "/" + to.Name
	}
	available := string(apiregistrationv1.ConditionUnknown)
	if condition := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available); condition != nil {
		available = string(condition.Status)
		if condition.Status != apiregistrationv1.ConditionTrue && condition.Reason != "" {
			available += " (" + condition.Reason + ")"
		}
	}
	return []any{by, available, kind.AgeOf(service)}
}
