// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdbuilder "k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	crdopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tarn-dev/tarn/envtest/internal/builtin"
)

// OpenAPI publishes the kinds of a server as OpenAPI v2 and v3. Server-side apply and strategic merge read how lists are
// merged from the same definitions.
type OpenAPI struct {
	V2       *common.Config
	v3       *common.OpenAPIV3Config
	catalog  *Catalog
	prepared chan struct{} // closed when the documents are served, and the server is ready
}

// nameDefinitions has the CRD server's OpenAPI builder read client-go's global scheme, for the names of definitions. The
// builder does so once in a process, and would when the first CRD is there: in the background, while a suite may be adding
// its kinds to that scheme.
var nameDefinitions = sync.OnceValue(func() error {
	_, err := crdbuilder.BuildOpenAPIV3(&apiextensionsv1.CustomResourceDefinition{
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    "tarn.dev",
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "any", Kind: "Any"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}},
		},
	}, "v1", crdbuilder.Options{})
	return err
})

// NewOpenAPI leaves it to Publish to serve the documents. The catalog says which versions of custom resources are served.
func NewOpenAPI(config *genericapiserver.Config, catalog *Catalog) (*OpenAPI, error) {
	if err := nameDefinitions(); err != nil {
		return nil, fmt.Errorf("prepare the OpenAPI documents of custom resources: %w", err)
	}
	namer := openapi.NewDefinitionNamer(external(builtin.Scheme()), crdserver.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = "Kubernetes"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = "Kubernetes"
	config.SkipOpenAPIInstallation = true
	return &OpenAPI{V2: config.OpenAPIConfig, v3: config.OpenAPIV3Config, catalog: catalog, prepared: make(chan struct{})}, nil
}

// external returns a scheme without the internal versions: each type has a definition, which names all kinds that it is of, and
// the types of the built-in kinds are those of their internal versions too.
func external(all *runtime.Scheme) *runtime.Scheme {
	some := runtime.NewScheme()
	for gvk, goType := range all.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			some.AddKnownTypeWithName(gvk, reflect.New(goType).Interface().(runtime.Object))
		}
	}
	return some
}

// definitions are the OpenAPI definitions of the built-in kinds and of CustomResourceDefinitions.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := crdopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(all, builtin.OpenAPIDefinitions(ref))
	return all
}

// Publish serves the documents of the server's built-in kinds, which the servers of a process share, and the documents of
// custom resources. The CRD server's controllers add and remove the latter. Each is made by the first request for it.
func (o *OpenAPI) Publish(generic *genericapiserver.GenericAPIServer) error {
	build := o.builder(generic)
	built, second := documentsOf(build), &spec.Swagger{}
	onMux := generic.Handler.NonGoRestfulMux
	generic.StaticOpenAPISpec = second // only requests read what is in it, the CRD server's controller too
	generic.OpenAPIVersionedService = handler.NewOpenAPIService(second)
	generic.OpenAPIVersionedService.RegisterOpenAPIVersionedService(PathV2, &onDemand{
		on: onMux, make: sync.OnceFunc(func() { *second = *built.ownV2(build) }),
	})
	generic.OpenAPIV3VersionedService = handler3.NewOpenAPIService()
	third := &joined{build: build, built: built, custom: generic.OpenAPIV3VersionedService, catalog: o.catalog}
	return third.RegisterOpenAPIV3VersionedService(PathV3, onMux)
}

// builder makes the documents of the server's own kinds.
func (o *OpenAPI) builder(generic *genericapiserver.GenericAPIServer) builder {
	return builder{generic.Handler, routes.OpenAPI{Config: o.V2, V3Config: o.v3}}
}

// onDemand calls make before the first request goes to a handler. It implements common.PathHandler.
type onDemand struct {
	on   common.PathHandler
	make func()
}

// Handle implements common.PathHandler.
func (d *onDemand) Handle(path string, handler http.Handler) {
	d.on.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d.make()
		handler.ServeHTTP(w, req)
	}))
}

// Ready lets the requests go on that [OpenAPI.Await] holds back.
func (o *OpenAPI) Ready() { close(o.prepared) }

// Await holds requests below /openapi back until Ready is called, or run ends: a plugin that asks when it starts would
// ask again only five seconds later. They wait until the server is ready, since to make the documents takes the processor
// from what makes it so.
func (o *OpenAPI) Await(run context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/openapi/") {
			select {
			case <-o.prepared:
			case <-run.Done():
			case <-req.Context().Done():
			}
		}
		next.ServeHTTP(w, req)
	})
}
