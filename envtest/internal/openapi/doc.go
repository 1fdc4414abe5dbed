// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi has the OpenAPI definitions of the built-in types of the API: the
// kinds' own packages of k8s.io/api and k8s.io/kube-aggregator, and the shared ones of k8s.io/apimachinery.
//
// The one function here, GetOpenAPIDefinitions, is generated from the comments and markers of those packages. The API
// server needs its result for /openapi/v2 and /openapi/v3, for server-side apply (list types and map keys) and for
// strategic merge. Run `go generate ./envtest/internal/openapi` after an update of k8s.io/api, and after adding a group
// to the table of kinds in the package builtin.
package openapi

//go:generate go tool openapi-gen --go-header-file header.txt --output-dir . --output-pkg github.com/tarn-dev/tarn/envtest/internal/openapi --output-file zz_generated.openapi.go --report-filename /dev/null k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/util/intstr k8s.io/apimachinery/pkg/version k8s.io/api/admissionregistration/v1 k8s.io/api/apps/v1 k8s.io/api/authentication/v1 k8s.io/api/authorization/v1 k8s.io/api/autoscaling/v1 k8s.io/api/autoscaling/v2 k8s.io/api/batch/v1 k8s.io/api/certificates/v1 k8s.io/api/coordination/v1 k8s.io/api/core/v1 k8s.io/api/discovery/v1 k8s.io/api/events/v1 k8s.io/api/flowcontrol/v1 k8s.io/api/networking/v1 k8s.io/api/node/v1 k8s.io/api/policy/v1 k8s.io/api/rbac/v1 k8s.io/api/resource/v1 k8s.io/api/scheduling/v1 k8s.io/api/scheduling/v1alpha3 k8s.io/api/storage/v1 k8s.io/kube-aggregator/pkg/apis/apiregistration/v1
