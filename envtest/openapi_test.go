// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/handler3"
	"sigs.k8s.io/yaml"
)

// openAPIDocument returns a document of a running environment.
func openAPIDocument(t *testing.T, env *Environment, path string) []byte {
	t.Helper()
	body, err := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().RESTClient().Get().RequestURI(path).
		SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return body
}

// openAPIList returns where the documents of the third version are.
func openAPIList(t *testing.T, env *Environment) map[string]handler3.OpenAPIV3DiscoveryGroupVersion {
	t.Helper()
	var list struct {
		Paths map[string]handler3.OpenAPIV3DiscoveryGroupVersion
	}
	if err := json.Unmarshal(openAPIDocument(t, env, "/openapi/v3"), &list); err != nil {
		t.Fatal(err)
	}
	return list.Paths
}

// widgetsIn returns a definition in a group of its own.
func widgetsIn(t *testing.T, group string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile("testdata/crds/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n---\n")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(first), crd); err != nil {
		t.Fatal(err)
	}
	crd.Name, crd.Spec.Group = "widgets."+group, group
	return crd
}

// TestOpenAPIOfManyServers starts servers at the same time that have the documents of built-in kinds in common, and each a
// definition of its own.
func TestOpenAPIOfManyServers(t *testing.T) {
	groups := []string{"first.example.com", "second.example.com"}
	envs := make([]*Environment, len(groups))
	var starting sync.WaitGroup
	for i, group := range groups {
		envs[i] = New(Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgetsIn(t, group)}})
		starting.Go(func() {
			if err := envs[i].Start(t.Context()); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			if err := envs[i].Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if t.Failed() {
		return
	}
	t.Run("asked at the same time", func(t *testing.T) {
		for i, env := range envs {
			t.Run(groups[i], func(t *testing.T) {
				t.Parallel()
				checkOpenAPI(t, env, groups[i], groups[1-i])
			})
		}
	})
	checkShared(t, envs[0], envs[1])
}

// checkOpenAPI checks that the server describes its own group and the built-in ones, and not those of others.
func checkOpenAPI(t *testing.T, env *Environment, own, foreign string) {
	t.Helper()
	for openAPIList(t, env)["apis/"+own+"/v1"].ServerRelativeURL == "" {
		if t.Context().Err() != nil {
			t.Errorf("%s is never in the list of documents", own)
			return
		}
	}
	list := openAPIList(t, env)
	if list["apis/"+foreign+"/v1"].ServerRelativeURL != "" {
		t.Errorf("the server of %s lists a document of %s", own, foreign)
	}
	widgets := string(openAPIDocument(t, env, list["apis/"+own+"/v1"].ServerRelativeURL))
	if !strings.Contains(widgets, own) || strings.Contains(widgets, foreign) {
		t.Errorf("the document of %s is about something else", own)
	}
	apps := string(openAPIDocument(t, env, list["apis/apps/v1"].ServerRelativeURL))
	if !strings.Contains(apps, `"io.k8s.api.apps.v1.Deployment"`) {
		t.Errorf("the server of %s does not describe Deployments", own)
	}
	v2 := string(openAPIDocument(t, env, "/openapi/v2"))
	if strings.Contains(v2, runtime.APIVersionInternal) || strings.Contains(apps, runtime.APIVersionInternal) {
		t.Error("the documents name internal versions, which nobody can ask for")
	}
	for text, want := range map[string]bool{`"/apis/` + own + `/v1/`: true, foreign: false, `"/apis/apps/v1/`: true} {
		if strings.Contains(v2, text) != want {
			t.Errorf("the server of %s has %s in its second version: %v", own, text, !want)
		}
	}
}

// checkShared checks that two servers have the same documents of built-in groups.
func checkShared(t *testing.T, a, b *Environment) {
	t.Helper()
	first, second, found := openAPIList(t, a), openAPIList(t, b), 0
	for path, at := range first {
		if strings.Contains(path, ".example.com/") {
			continue
		}
		found++
		if at != second[path] || path != "apis" && path != "api" && at.ServerRelativeURL == "" {
			t.Errorf("%s is at %q and at %q", path, at, second[path])
		}
	}
	if found < 20 {
		t.Errorf("there are documents of %d built-in groups", found)
	}
}

// TestOpenAPIListIsKnown asks for the list again with its tag, and after a definition was added.
func TestOpenAPIListIsKnown(t *testing.T) {
	env := Start(t)
	transport, err := rest.TransportFor(env.Config())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(known string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.Config().Host+"/openapi/v3", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("If-None-Match", known)
		answer, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer
	}
	tag := ask("").Header.Get("Etag")
	if code := ask(tag).StatusCode; tag == "" || code != http.StatusNotModified {
		t.Errorf("with the tag %q of the list the answer is %d, want 304", tag, code)
	}
	const group = "late.example.com"
	if err := env.InstallCRDs(t.Context(), widgetsIn(t, group)); err != nil {
		t.Fatal(err)
	}
	for openAPIList(t, env)["apis/"+group+"/v1"].ServerRelativeURL == "" {
		if t.Context().Err() != nil {
			t.Fatal("the group of a new definition is never in the list")
		}
	}
	if code := ask(tag).StatusCode; code != http.StatusOK {
		t.Errorf("with the tag of an older list the answer is %d, want 200", code)
	}
}
