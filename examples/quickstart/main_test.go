// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/examples/internal/cluster"
)

// TestPrintsWhatItsPageSays runs the quickstart and compares its output with
// the one in examples/README.md, but for times and resourceVersions. Nothing may be left
// running: the output says so.
func TestPrintsWhatItsPageSays(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	got := quickstart(t, cluster.Flags{})

	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "<!-- output: examples/quickstart -->\n```text\n")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("examples/README.md has no block with the output of examples/quickstart")
	}
	if want, got := normal(block), normal(got); want != got {
		t.Errorf("the output in examples/README.md is not that of the program any more\npage:\n%s\nprogram:\n%s", want, got)
	}
}

// TestRemovesItsNamespace runs the quickstart on a server that it did not start.
func TestRemovesItsNamespace(t *testing.T) {
	env := envtest.Start(t)
	kubeconfig, err := env.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	out := quickstart(t, cluster.Flags{Kubeconfig: file})
	name := regexp.MustCompile(`create +Namespace (quickstart-\S+)`).FindStringSubmatch(out)
	if name == nil {
		t.Fatalf("no namespace with a generated name in the output:\n%s", out)
	}

	c, err := client.New(env.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace, pods := &corev1.Namespace{}, &corev1.PodList{}
	err = c.Get(t.Context(), client.ObjectKey{Name: name[1]}, namespace)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	// A server without controllers keeps the namespace, marked.
	if err == nil && namespace.DeletionTimestamp == nil {
		t.Errorf("namespace %s is not deleted", name[1])
	}
	if err := c.List(t.Context(), pods, client.InNamespace(name[1])); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 0 {
		t.Errorf("%d Pods are left in namespace %s", len(pods.Items), name[1])
	}
}

func quickstart(t *testing.T, flags cluster.Flags) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, flags, &out); err != nil {
		t.Fatalf("%v; its output was:\n%s", err, out.String())
	}
	return out.String()
}

var (
	times    = regexp.MustCompile(`\d+(\.\d+)? (µs|ms|s)\b`)
	versions = regexp.MustCompile(`\brv \d+`)
	spaces   = regexp.MustCompile(` +`)
)

// normal replaces what differs from run to run.
func normal(output string) string {
	output = times.ReplaceAllString(output, "TIME")
	output = versions.ReplaceAllString(output, "rv N")
	return strings.TrimSpace(spaces.ReplaceAllString(output, " "))
}
