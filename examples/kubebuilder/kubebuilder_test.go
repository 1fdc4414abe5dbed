// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubebuilder_test keeps the suites as they were before they were moved, and
// says what Tarn adds to a manager.
package kubebuilder_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unmoved are the suites of this project that run on Tarn, each with the suite that it was before.
var unmoved = map[string]string{
	"internal/controller/suite_test.go":         "internal/controller/testdata/suite_test.go",
	"internal/webhook/v1/webhook_suite_test.go": "internal/webhook/v1/testdata/webhook_suite_test.go",
}

// TestUnmovedSuites compiles the suites as they were, and runs them if there are
// binaries to run them on.
func TestUnmovedSuites(t *testing.T) {
	args := []string{"vet"}
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		args = []string{"test", "-count=1"}
	} else {
		t.Log("KUBEBUILDER_ASSETS is not set: the suites are compiled, and not run")
	}
	args = append(args, "-overlay="+overlay(t), "./internal/...")
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil {
		t.Errorf("go %v: %v\n%s", args, err, out)
	}
}

// overlay writes a file by which the go command reads the suites as they were before.
func overlay(t *testing.T) string {
	t.Helper()
	content := struct{ Replace map[string]string }{map[string]string{}}
	for moved, before := range unmoved {
		for _, name := range []*string{&moved, &before} {
			absolute, err := filepath.Abs(*name)
			if err != nil {
				t.Fatal(err)
			}
			*name = absolute
		}
		content.Replace[moved] = before
	}
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLinkedModules compares what the manager links on Tarn's cache with what it
// links on controller-runtime's. docs/versions.md says the same.
func TestLinkedModules(t *testing.T) {
	theirs, ours := linked(t, "cmd/testdata/main.go"), linked(t, "./cmd")
	added := slices.DeleteFunc(slices.Clone(ours), func(module string) bool { return slices.Contains(theirs, module) })
	if want := []string{"github.com/tidwall/btree"}; !slices.Equal(added, want) {
		t.Errorf("beside Tarn itself, a manager links %q more, want %q", added, want)
	}
	page, err := os.ReadFile("../../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	// Their modules include Tarn's, in which this example lies.
	if row := fmt.Sprintf("| modules linked | %d | %d |", len(theirs)-1, len(ours)); !strings.Contains(string(page), row) {
		t.Errorf("docs/versions.md has no row %q", row)
	}
	for _, module := range []string{"k8s.io/apiserver", "go.etcd.io/etcd/server/v3"} {
		if slices.Contains(ours, module) {
			t.Errorf("a manager links %s: that is for envtest and the Cacher", module)
		}
	}
}

// linked returns the modules whose packages a program is made of.
func linked(t *testing.T, program string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", program)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return slices.Compact(modules)
}
