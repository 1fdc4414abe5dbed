// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/validation"
)

func apiregistrationKinds() []*kind {
	return []*kind{{
		gvk: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"), resource: "apiservices", categories: []string{"api-extensions"}, cluster: true,
		rules: rules{
			status: true, needVersion: true, anyMeta: true, anyFinalizers: true,
			statusKeeps: []string{"metadata"},
		},
		hooks: hooks{prepare: typedPrepare(prepareAPIService), validateRequest: validateAPIService, validateStatus: validateAPIServiceStatus},
		table: show("Service,Available,Age", apiServiceCells),
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
	service := mustBe[*apiregistrationv1.APIService](obj).DeepCopy()
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
	return []any{by, available, ageOf(service)}
}
