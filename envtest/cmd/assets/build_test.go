// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeGo stands in for the go command: it knows the calls that a build makes, and "compiles" programs that
// print the test's version. Compiling for real is left to whoever runs the command.
const fakeGo = `#!/bin/sh
set -eu
case "$1 $2" in
"mod download")
	if [ -n "${FAKE_OFFLINE:-}" ]; then printf '{"Error": "dial tcp: no route to host"}'; exit 1; fi
	printf '{"GoMod": "%s/go.mod", "Dir": "%s", "Sum": "%s"}' "$FAKE_SOURCE" "$FAKE_SOURCE" "$FAKE_SUM" ;;
"list -mod=mod")
	grep -q 'k8s.io/api => k8s.io/api v0.36.3' go.mod
	grep -q 'of kubernetes' go.sum
	grep -q 'k8s.io/api v0.36.3 h1:' go.sum
	echo "go: downloading example.com/a v1.0.0" >&2 ;;
"build -v")
	[ "$GOWORK $CGO_ENABLED" = "off 0" ]
	if [ -n "${FAKE_FULL:-}" ]; then echo "write: no space left on device" >&2; exit 1; fi
	while [ "$1" != -o ]; do shift; done
	printf '#!/bin/sh\necho %s of %s\n' "$FAKE_VERSIONS" "$3" >"$2"
	chmod 700 "$2" ;;
*)
	echo "unexpected: go $*" >&2; exit 2 ;;
esac
`

// useFakeGo puts fakeGo first on PATH.
func useFakeGo(t *testing.T) {
	t.Helper()
	bin, source := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(bin, "go"):        fakeGo,
		filepath.Join(source, "go.mod"): kubernetesGoMod,
		filepath.Join(source, "go.sum"): "the sums of kubernetes\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FAKE_SOURCE", source)
	t.Setenv("FAKE_SUM", "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=")
	t.Setenv("FAKE_VERSIONS", "v1.36.3 and 3.6.8")
}

func TestRunBuildsOnce(t *testing.T) {
	useFakeGo(t)
	args := []string{"-dir", t.TempDir()}
	var first, second, stderr bytes.Buffer
	if err := run(t.Context(), args, &first, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	for _, want := range []string{"downloading what it needs: done (1 modules)", "compiling kube-apiserver v1.36.3", "compiling etcd 3.6.8"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("progress lacks %q:\n%s", want, &stderr)
		}
	}
	stderr.Reset()
	t.Setenv("PATH", "")
	if err := run(t.Context(), args, &second, &stderr); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() || stderr.Len() > 0 {
		t.Errorf("second run: %q, stderr %q; first: %q", &second, &stderr, &first)
	}
}

// TestRunBuildsExtras beside binaries that are there, and each once.
func TestRunBuildsExtras(t *testing.T) {
	useFakeGo(t)
	root := t.TempDir()
	args := []string{"-dir", root, "-kubectl", "-scheduler"}
	var first, stderr bytes.Buffer
	if err := run(t.Context(), args[:2], &first, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	stderr.Reset()
	var second bytes.Buffer
	if err := run(t.Context(), args, &second, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if first.String() != second.String() {
		t.Errorf("another folder: %q, before %q", &second, &first)
	}
	if strings.Contains(stderr.String(), "compiling kube-apiserver") {
		t.Errorf("the binaries were built again:\n%s", &stderr)
	}
	place := strings.Trim(strings.TrimPrefix(strings.TrimSpace(second.String()), "export KUBEBUILDER_ASSETS="), "'")
	if got, want := list(t, place), []string{"etcd", "kube-apiserver", "kube-scheduler", "kubectl"}; !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(place, "kubectl")).Output()
	if err != nil || !strings.Contains(string(out), "of k8s.io/kubernetes/cmd/kubectl") {
		t.Errorf("kubectl is another program: %v, %q", err, out)
	}
	stderr.Reset()
	t.Setenv("PATH", "")
	if err := run(t.Context(), args, &second, &stderr); err != nil || stderr.Len() > 0 {
		t.Errorf("it builds again: %v, %q", err, &stderr)
	}
}

func TestRunSaysWhyABuildFailed(t *testing.T) {
	for name, c := range map[string]struct {
		env, value string
		want       []string
	}{
		"no network":    {"FAKE_OFFLINE", "1", []string{"no route to host", "GOPROXY"}},
		"no disk":       {"FAKE_FULL", "1", []string{"no space left", "free some disk"}},
		"wrong source":  {"FAKE_SUM", "h1:x", []string{"k8s.io/kubernetes v1.36.3 has the checksum h1:x", "GOPROXY"}},
		"wrong version": {"FAKE_VERSIONS", "v1.36.2", []string{"kube-apiserver is not of version v1.36.3", "v1.36.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			useFakeGo(t)
			t.Setenv(c.env, c.value)
			root := t.TempDir()
			var stdout, stderr bytes.Buffer
			err := run(t.Context(), []string{"-dir", root}, &stdout, &stderr)
			if err == nil || stdout.Len() > 0 {
				t.Fatalf("error %v, stdout %q", err, &stdout)
			}
			for _, want := range c.want {
				if strings.Count(err.Error(), want) != 1 {
					t.Errorf("error says %q not once: %v", want, err)
				}
			}
			if got := list(t, root); len(got) != 1 || !strings.HasSuffix(got[0], ".lock") {
				t.Errorf("left behind: %q, want the lock file alone", got)
			}
		})
	}
}

func TestGoErrorKeepsItsCause(t *testing.T) {
	cause := errors.New("exit status 1")
	if err := error(&goError{command: "build", err: cause}); !errors.Is(err, cause) {
		t.Errorf("%v does not wrap its cause", err)
	}
}
