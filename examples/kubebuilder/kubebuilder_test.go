// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubebuilder_test keeps the suites as they were before they were moved.
package kubebuilder_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// unmoved are the suites of this project that run on Tarn, and those that they were.
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

// overlay writes a file that lets the go command read the suites as they were in
// place of those that are there.
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
