// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
)

// serveDocuments returns documents of one built-in group and of those that the test adds, and what answers requests for them.
func serveDocuments(t *testing.T) (j *joined, get func(path string) *httptest.ResponseRecorder) {
	t.Helper()
	built := &documents{groups: map[string]bool{"apis/apps/v1": true}}
	built.third.Do(func() {
		service := handler3.NewOpenAPIService()
		service.UpdateGroupVersion("apis/apps/v1", &spec3.OpenAPI{Version: "built-in"})
		built.keep(service)
	})
	j = &joined{built: built, custom: handler3.NewOpenAPIService(), catalog: New(crdserver.Codecs)}
	paths := mux.NewPathRecorderMux("test")
	if err := j.RegisterOpenAPIV3VersionedService(PathV3, paths); err != nil {
		t.Fatal(err)
	}
	return j, func(path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		paths.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer
	}
}

// pathsOf returns where the list says that the documents are.
func pathsOf(t *testing.T, answer *httptest.ResponseRecorder) map[string]located {
	t.Helper()
	var list handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
		t.Fatalf("%d: %v", answer.Code, err)
	}
	return list.Paths
}

// TestListOfDocuments checks that the list names exactly the versions that discovery offers and a document describes, and that
// its addresses lead to these documents.
func TestListOfDocuments(t *testing.T) {
	j, get := serveDocuments(t)
	crds := j.catalog.From(aggregated.CRDSource)
	crds.AddGroupVersion("described.example.com", offered("v1", "widgets"))
	crds.AddGroupVersion("not-yet.example.com", offered("v1", "widgets"))
	crds.AddGroupVersion("apps", offered("v1", "widgets"))
	for _, path := range []string{"apis/described.example.com/v1", "apis/gone.example.com/v1", "apis/apps/v1"} {
		j.custom.UpdateGroupVersion(path, &spec3.OpenAPI{Version: "custom"})
	}
	paths := pathsOf(t, get(PathV3))
	for path, version := range map[string]string{"apis/described.example.com/v1": "custom", "apis/apps/v1": "built-in"} {
		if paths[path] == (located{}) {
			t.Fatalf("%s is not in the list %v", path, paths)
		}
		answer := get(paths[path].ServerRelativeURL)
		var document spec3.OpenAPI
		if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil || document.Version != version {
			t.Errorf("%s is at %q with %d: %s, want one of %s", path, paths[path].ServerRelativeURL, answer.Code, answer.Body, version)
		}
		if answer.Header().Get("Cache-Control") != "public, immutable" {
			t.Errorf("the address of %s has not the hash of the document", path)
		}
	}
	if len(paths) != 2 {
		t.Errorf("the list is %v", paths)
	}
	for _, path := range []string{"apis/not-yet.example.com/v1", "apis/gone.example.com/v1"} {
		if code := get(PathV3 + "/" + path).Code; code != http.StatusNotFound {
			t.Errorf("%s is answered with %d", path, code)
		}
	}
}

// TestListOfDocumentsIsUpstreams compares the list with that of upstream's service, which is safe to ask while nothing changes.
func TestListOfDocumentsIsUpstreams(t *testing.T) {
	j, get := serveDocuments(t)
	for _, version := range []string{"v1", "v1alpha1", "v2"} {
		j.catalog.From(aggregated.CRDSource).AddGroupVersion("some.example.com", offered(version, "widgets"))
		j.custom.UpdateGroupVersion("apis/some.example.com/"+version, &spec3.OpenAPI{Version: version})
	}
	upstreams := httptest.NewRecorder()
	j.custom.HandleDiscovery(upstreams, httptest.NewRequest(http.MethodGet, PathV3, nil))
	ours, theirs := pathsOf(t, get(PathV3)), pathsOf(t, upstreams)
	delete(ours, "apis/apps/v1")
	if len(theirs) != 3 || !maps.Equal(ours, theirs) {
		t.Errorf("the list is\n%v, and upstream's\n%v", ours, theirs)
	}
}

// TestListOfDocumentsWhileGroupsCome asks for the list while groups come and go. To ask the service of custom resources for its own
// list can end the process: a new group is in it for a moment before its document.
func TestListOfDocumentsWhileGroupsCome(t *testing.T) {
	j, get := serveDocuments(t)
	const group, path = "some.example.com", "apis/some.example.com/v1"
	crds := j.catalog.From(aggregated.CRDSource)
	done := make(chan struct{})
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(done)
	for range 2 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if answer := get(PathV3); answer.Code != http.StatusOK {
					t.Errorf("the list is answered with %d: %s", answer.Code, answer.Body)
					return
				}
				get(PathV3 + "/" + path)
			}
		})
	}
	for range 20_000 {
		crds.AddGroupVersion(group, offered("v1", "widgets"))
		j.custom.UpdateGroupVersion(path, &spec3.OpenAPI{Version: "custom"})
		j.custom.DeleteGroupVersion(path)
		crds.RemoveGroup(group)
	}
}
