// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryPinIsOne looks for lines that the go command would not take.
func TestEveryPinIsOne(t *testing.T) {
	entries, err := pinned.ReadDir("sums")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		r, err := parseRelease(strings.TrimSuffix(entry.Name(), ".sum"))
		if err != nil {
			t.Errorf("%s: %v", entry.Name(), err)
			continue
		}
		own := false
		for line := range strings.Lines(string(r.pins())) {
			fields := strings.Fields(line)
			if len(fields) != 3 || !strings.HasPrefix(fields[2], "h1:") {
				t.Errorf("%s: %q", entry.Name(), line)
				continue
			}
			version := strings.TrimSuffix(fields[1], "/go.mod")
			own = own || fields[0] == kubernetesModule && fields[1] == r.kubernetes
			if fields[0] != kubernetesModule && version != r.staging || fields[0] == kubernetesModule && version != r.kubernetes {
				t.Errorf("%s: %q is of another release", entry.Name(), line)
			}
		}
		if !own {
			t.Errorf("%s: it lacks Kubernetes itself", entry.Name())
		}
	}
	if (release{kubernetes: defaultKubernetes}).pins() == nil {
		t.Errorf("the default, %s, is not pinned", defaultKubernetes)
	}
}

// TestAnotherProgramUnderTheNameIsRefused lets the real go command get a forged release from a proxy, while its own checks
// are switched off.
func TestAnotherProgramUnderTheNameIsRefused(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	for version, want := range map[string]string{
		defaultKubernetes: "has another program under its name",
		"v1.36.99":        "checksum database has to answer", // nobody has pinned it, and nobody vouches for it
	} {
		t.Run(version, func(t *testing.T) {
			for name, value := range map[string]string{
				"GOPROXY": "file://" + forge(t, version), "GOMODCACHE": t.TempDir(), "GOFLAGS": "-modcacherw",
				"GOSUMDB": "off", "GONOSUMDB": "*", "GONOSUMCHECK": "1", "GOPRIVATE": "*", "GONOPROXY": "none", "GOINSECURE": "*",
				"HTTPS_PROXY": "http://127.0.0.1:1", // nobody answers there
			} {
				t.Setenv(name, value)
			}
			var stdout, stderr bytes.Buffer
			err := run(t.Context(), []string{"-dir", t.TempDir(), "-kubernetes", version}, &stdout, &stderr)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q\n%s", err, want, &stderr)
			}
			if stdout.Len() > 0 {
				t.Errorf("a shell would evaluate %q", &stdout)
			}
		})
	}
}

// forge makes the folder of a module proxy that has a Kubernetes of our own.
func forge(t *testing.T, version string) string {
	t.Helper()
	proxy := t.TempDir()
	folder := filepath.Join(proxy, "k8s.io", "kubernetes", "@v")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	files := zip.NewWriter(&archive)
	for name, content := range map[string]string{"go.mod": kubernetesGoMod, "go.sum": "", "forged.go": "package kubernetes\n"} {
		file, err := files.Create(fmt.Sprintf("%s@%s/%s", kubernetesModule, version, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	for suffix, content := range map[string][]byte{
		".info": fmt.Appendf(nil, `{"Version": %q}`, version), ".mod": []byte(kubernetesGoMod), ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(folder, version+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proxy
}
