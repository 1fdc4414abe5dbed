// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// documents describe kinds that are the same in many servers. To make them takes as long as the rest of a server's start, so
// that the first request makes them, and the process keeps them, some tens of megabytes, for as long as it lives. They never
// change.
type documents struct {
	groups map[string]bool // the paths of the group versions that the third version has

	second struct {
		sync.Once
		spec *spec.Swagger
	}
	third struct {
		sync.Once
		service *handler3.OpenAPIService
		list    func() map[string]located // the first call encodes them all
	}
}

// builder makes documents of what one server has from its start.
type builder struct {
	handler *genericapiserver.APIServerHandler
	routes.OpenAPI
}

// located is the address of a document.
type located = handler3.OpenAPIV3DiscoveryGroupVersion

// published has documents by the requests that are served. It is as good as always one entry: only the flags of a command
// line can make servers differ.
var published struct {
	sync.Mutex
	by map[string]*documents
}

// documentsOf returns the documents of what the builder's server has from its start.
func documentsOf(build builder) *documents {
	key, groups := &strings.Builder{}, map[string]bool{}
	fmt.Fprintln(key, build.Config.Info.Version)
	for _, service := range build.handler.GoRestfulContainer.RegisteredWebServices() {
		groups[strings.TrimPrefix(service.RootPath(), "/")] = true
		for _, route := range service.Routes() {
			fmt.Fprintln(key, route.Method, route.Path, route.Operation)
		}
	}
	published.Lock()
	defer published.Unlock()
	if published.by == nil {
		published.by = map[string]*documents{}
	}
	d := published.by[key.String()]
	if d == nil {
		d = &documents{groups: groups}
		published.by[key.String()] = d
	}
	return d
}

// v2 returns the second version's document. A request that comes meanwhile waits for it. The builder is not
// kept.
func (d *documents) v2(build builder) *spec.Swagger {
	d.second.Do(func() {
		_, d.second.spec = build.InstallV2(build.handler.GoRestfulContainer, mux.NewPathRecorderMux("unused"))
	})
	return d.second.spec
}

// v3 returns the handlers of the documents of the third version, and of their list. A request that comes meanwhile
// waits for them. The builder is not kept.
func (d *documents) v3(build builder) (*handler3.OpenAPIService, func() map[string]located) {
	d.third.Do(func() { d.keep(build.InstallV3(build.handler.GoRestfulContainer, mux.NewPathRecorderMux("unused"))) })
	return d.third.service, d.third.list
}

// keep keeps the service that has the documents of the third version.
func (d *documents) keep(service *handler3.OpenAPIService) {
	d.third.service = service
	d.third.list = sync.OnceValue(func() map[string]located { return locate(service, slices.Collect(maps.Keys(d.groups))) })
}

// ownV2 returns the second version's document for one server, whose CRD controller adds to the extensions of definitions.
func (d *documents) ownV2(build builder) *spec.Swagger {
	shared := d.v2(build)
	own := *shared
	own.Definitions = make(spec.Definitions, len(shared.Definitions))
	for name, definition := range shared.Definitions {
		definition.Extensions = maps.Clone(definition.Extensions)
		own.Definitions[name] = definition
	}
	return &own
}

// joined serves the third version: the documents that many servers have, and those of one server's custom resources. As
// elsewhere in discovery, a custom resource takes nothing away from a built-in group.
type joined struct {
	build   builder
	built   *documents
	custom  *handler3.OpenAPIService // the CRD server's controller changes it while requests read it
	catalog *Catalog                 // says which versions of custom resources are served
}

// RegisterOpenAPIV3VersionedService serves both like handler3.OpenAPIService serves its own.
func (j *joined) RegisterOpenAPIV3VersionedService(path string, on common.PathHandlerByGroupVersion) error {
	on.Handle(path, http.HandlerFunc(j.discovery))
	on.HandlePrefix(path+"/", http.HandlerFunc(j.groupVersion))
	return nil
}

func (j *joined) discovery(w http.ResponseWriter, req *http.Request) {
	all := locate(j.custom, j.served())
	_, built := j.built.v3(j.build)
	maps.Copy(all, built())
	body, err := json.Marshal(handler3.OpenAPIV3Discovery{Paths: all})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(body))))
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, req, PathV3, time.Time{}, bytes.NewReader(body))
}

func (j *joined) groupVersion(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimPrefix(req.URL.Path, PathV3+"/")
	if j.built.groups[path] {
		service, _ := j.built.v3(j.build)
		service.HandleGroupVersion(w, req)
		return
	}
	if !slices.Contains(j.served(), path) || hashOf(j.custom, path) == "" {
		w.WriteHeader(http.StatusNotFound) // the service would answer with nothing
		return
	}
	j.custom.HandleGroupVersion(w, req)
}

// served returns the paths of the versions of custom resources. The service also has documents of versions that a definition no
// longer serves, which nobody can use.
func (j *joined) served() []string { return j.catalog.paths(aggregated.CRDSource) }

// locate returns where the documents of group versions are, by their paths. It leaves out the paths that have no document. The
// list that the service itself has is not used: a new path is in that list before its document is, and a request that reads
// the list at that moment ends the process.
func locate(service *handler3.OpenAPIService, paths []string) map[string]located {
	found := map[string]located{}
	for _, path := range paths {
		if hash := hashOf(service, path); hash != "" {
			at := url.URL{Path: PathV3 + "/" + path, RawQuery: url.Values{"hash": {hash}}.Encode()}
			found[path] = located{ServerRelativeURL: at.String()}
		}
	}
	return found
}

// hashOf returns the hash of a group version's document, or "" if the service does not have it. The service tells nobody but HTTP
// clients.
func hashOf(service *handler3.OpenAPIService, path string) string {
	answer := headers{}
	service.HandleGroupVersion(answer, &http.Request{Method: http.MethodHead, URL: &url.URL{Path: PathV3 + "/" + path}, Header: http.Header{}})
	hash, err := strconv.Unquote(answer.Header().Get("Etag"))
	if err != nil {
		return ""
	}
	return hash
}

// headers are an answer without its body. They implement http.ResponseWriter.
type headers http.Header

func (h headers) Header() http.Header { return http.Header(h) }

func (headers) Write(body []byte) (int, error) { return len(body), nil }

func (headers) WriteHeader(int) {}

const (
	PathV2 = "/openapi/v2"
	PathV3 = "/openapi/v3"
)
