// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestAFinishedFolderIsAnsweredAtOnce(t *testing.T) {
	t.Setenv("PATH", "") // nothing can be started
	root := t.TempDir()
	finished := filepath.Join(root, "kubernetes-"+defaultKubernetes+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	fillWith(t, finished, 0o700, binaries...)

	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-dir", root}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if got, want := stdout.String(), "export KUBEBUILDER_ASSETS='"+finished+"'\n"; got != want {
		t.Errorf("stdout = %q, want %q", got, want)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr = %q", &stderr)
	}
	if got := list(t, root); len(got) != 1 {
		t.Errorf("it left files: %q", got)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Setenv("PATH", "")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an argument":      {[]string{"here"}, `unexpected argument "here"`},
		"an unknown flag":  {[]string{"-cubectl"}, "-cubectl"},
		"a wrong release":  {[]string{"-kubernetes", "1.36"}, "full version such as v1.36.3"},
		"no go command":    {[]string{"-dir", t.TempDir()}, "put it on PATH"},
		"a file as folder": {[]string{"-dir", filepath.Join(file, "dir")}, "name another with -dir"},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), c.args, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if stdout.Len() > 0 {
			t.Errorf("%s: a shell would evaluate %q", name, &stdout)
		}
	}
}

func TestRootFolder(t *testing.T) {
	t.Setenv("HOME", "/home/someone")
	t.Setenv("XDG_CACHE_HOME", "")
	root, err := rootFolder("")
	if err != nil || !strings.HasPrefix(root, "/home/someone/") || !strings.HasSuffix(root, "/tarn/assets") {
		t.Errorf("default = %q, %v", root, err)
	}
	if root, err = rootFolder("some/dir"); err != nil || !filepath.IsAbs(root) || !strings.HasSuffix(root, "/some/dir") {
		t.Errorf("relative = %q, %v", root, err)
	}
	t.Setenv("HOME", "")
	if _, err = rootFolder(""); err == nil || !strings.Contains(err.Error(), "-dir") {
		t.Errorf("without a home: %v, want a hint at -dir", err)
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"/cache/tarn": `'/cache/tarn'`,
		"/a b/$c":     `'/a b/$c'`,
		"/it's":       `'/it'\''s'`,
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}
