// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTarnOf(t *testing.T) {
	for version, want := range map[string]string{
		"":                     "tarn-devel-linux-amd64",
		"(devel)":              "tarn-devel-linux-amd64",
		"v0.2.0+dirty":         "tarn-devel-linux-amd64",
		"v0.2.0":               "tarn-v0.2.0-linux-amd64",
		"v0.2.1-0.2026-abcdef": "tarn-v0.2.1-0.2026-abcdef-linux-amd64",
	} {
		if got := tarnOf(version).folderName("linux", "amd64"); got != want {
			t.Errorf("folder of %q = %q, want %q", version, got, want)
		}
	}
}

// TestTarn builds Tarn's control plane, and starts both programs.
func TestTarn(t *testing.T) {
	if testing.Short() {
		t.Skip("links large programs")
	}
	root := t.TempDir()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-tarn", "-dir", root}, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(stdout.String()), "export KUBEBUILDER_ASSETS=")
	if !ok {
		t.Fatalf("stdout = %q", &stdout)
	}
	path = strings.Trim(path, "'")
	if got := list(t, path); len(got) != len(binaries) {
		t.Errorf("the folder has %q, want the binaries alone", got)
	}
	if got := list(t, root); len(got) != 2 { // the folder, and its lock
		t.Errorf("it left files: %q", got)
	}
	for name, want := range map[string]string{"etcd": "etcd Version", "kube-apiserver": tarnMark} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(path, name), "--version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s --version: %v\n%s", name, err, out)
		}
	}
}
