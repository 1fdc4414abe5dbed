// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"maps"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/tarn-dev/tarn/envtest/internal/builtin"
)

// setOpenAPI makes the server publish its kinds as OpenAPI v2 and v3. Server-side apply and strategic merge read how
// lists are merged from the same definitions.
func setOpenAPI(config *genericapiserver.Config) {
	namer := openapi.NewDefinitionNamer(builtin.Scheme(), crdserver.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = "Kubernetes"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = "Kubernetes"
}

// definitions are those of the built-in kinds and of CustomResourceDefinitions.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := crdopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(all, builtin.OpenAPIDefinitions(ref))
	return all
}
