// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for version, staging := range map[string]string{
		"v1.36.3":      "v0.36.3",
		"v1.37.0-rc.1": "v0.37.0-rc.1",
		"1.36.3":       "",
		"v1.36":        "",
		"v2.0.0":       "",
		"latest":       "",
		"":             "",
	} {
		r, err := parseRelease(version)
		switch {
		case staging == "" && err == nil:
			t.Errorf("parseRelease(%q) accepted it as %+v", version, r)
		case staging == "" && !strings.Contains(err.Error(), defaultKubernetes):
			t.Errorf("parseRelease(%q) does not say what a release looks like: %v", version, err)
		case staging != "" && (err != nil || r.staging != staging || r.kubernetes != version):
			t.Errorf("parseRelease(%q) = %+v, %v; want staging %s", version, r, err, staging)
		}
	}
}

func TestReleaseNamesAndFlags(t *testing.T) {
	r := release{kubernetes: "v1.36.3", staging: "v0.36.3"}
	if got, want := r.folderName("kubernetes", "linux", "arm64"), "kubernetes-v1.36.3-linux-arm64"; got != want {
		t.Errorf("folderName = %q, want %q", got, want)
	}
	const v = " -X k8s.io/component-base/version."
	if got, want := r.ldflags(), "-s -w"+v+"gitVersion=v1.36.3"+v+"gitMajor=1"+v+"gitMinor=36"; got != want {
		t.Errorf("ldflags = %q, want %q", got, want)
	}
}

const kubernetesGoMod = `module k8s.io/kubernetes

go 1.26.0

require (
	go.etcd.io/etcd/client/v3 v3.6.8
	go.etcd.io/etcd/server/v3 v3.6.8 // indirect
	k8s.io/api v0.0.0
	k8s.io/client-go v0.0.0
)

replace (
	example.com/fork => example.com/fork v1.0.0
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
`

func TestRecipe(t *testing.T) {
	r := release{kubernetes: "v1.36.3", staging: "v0.36.3"}
	rec, err := r.recipe([]byte(kubernetesGoMod))
	if err != nil {
		t.Fatal(err)
	}
	if rec.etcd != "v3.6.8" {
		t.Errorf("etcd = %q, want the version that Kubernetes requires", rec.etcd)
	}
	const want = `module assets

go 1.26.0

require (
	k8s.io/kubernetes v1.36.3
	go.etcd.io/etcd/server/v3 v3.6.8
)

replace k8s.io/api => k8s.io/api v0.36.3

replace k8s.io/client-go => k8s.io/client-go v0.36.3
`
	if got := string(rec.gomod); got != want {
		t.Errorf("go.mod:\n%s\nwant:\n%s", got, want)
	}
}

func TestRecipeRefuses(t *testing.T) {
	for name, gomod := range map[string]string{
		"no etcd":      "module k8s.io/kubernetes\n\ngo 1.26.0\n",
		"not a go.mod": "<html>captive portal</html>",
	} {
		if _, err := (release{kubernetes: "v1.36.3"}).recipe([]byte(gomod)); err == nil ||
			!strings.Contains(err.Error(), kubernetesModule) {
			t.Errorf("%s: the error does not name the module: %v", name, err)
		}
	}
}
