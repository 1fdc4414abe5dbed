// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// specOf starts a server, asks it for its document, and returns that.
func specOf(t *testing.T) *spec.Swagger {
	t.Helper()
	c, secured := configOf(t, t.TempDir())
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(0); err != nil {
			t.Error(err)
		}
		if err := c.Etcd.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.start(t.Context(), secured); err != nil {
		t.Fatal(err)
	}
	config, err := c.Users.Issue("somebody", user.SystemPrivilegedGroup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Get().RequestURI("/openapi/v2").DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.crds.GenericAPIServer.StaticOpenAPISpec
}

// TestDocumentsAreShared checks what two servers have in common, and that nothing that one of them writes reaches the other.
func TestDocumentsAreShared(t *testing.T) {
	const pod, extension = "io.k8s.api.core.v1.Pod", "x-kubernetes-group-version-kind"
	mine, theirs := specOf(t), specOf(t)
	if mine.Paths != theirs.Paths {
		t.Error("documents of the same kinds were made twice")
	}
	mine.Definitions[pod].Extensions[extension] = "changed"
	mine.Definitions["added"] = mine.Definitions[pod]
	if _, added := theirs.Definitions["added"]; added || theirs.Definitions[pod].Extensions[extension] == "changed" {
		t.Error("what a server adds to its definitions is in those of another one")
	}
}
