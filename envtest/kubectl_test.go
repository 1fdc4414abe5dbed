// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarn-dev/tarn/envtest"
)

// sessionFile is a session with kubectl v1.36.3 at a kube-apiserver v1.36.3: commands, each with what it wrote to its
// outputs and, unless that is zero, its exit code. Text that differs between sessions is written as a word, see
// inCommon. It is written by
//
//	eval "$(go run ./envtest/cmd/assets -kubectl)"
//	go run ./envtest/cmd/oracle -kubeconfig FILE &
//	TARN_ORACLE_KUBECONFIG=FILE TARN_WRITE_SESSION=true go test ./envtest -run TestKubectl
const sessionFile = "testdata/kubectl/session.txt"

// kubectlVersion is the version of kubectl that wrote the session.
const kubectlVersion = "v1.36.3"

// TestKubectl compares what people see: a session over all groups of the API.
func TestKubectl(t *testing.T) {
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	version, err := exec.CommandContext(t.Context(), kubectl, "version", "--client").Output()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" || err != nil || !strings.Contains(string(version), kubectlVersion) {
		t.Skipf(`SKIPPED: there is no kubectl %s in KUBEBUILDER_ASSETS (%v); eval "$(go run ./envtest/cmd/assets -kubectl)" puts one there`, kubectlVersion, err)
	}
	shell := newTerminal(t, kubectl)
	data, err := os.ReadFile(sessionFile)
	if err != nil {
		t.Fatal(err)
	}
	var session strings.Builder
	for _, want := range strings.Split(strings.TrimPrefix(string(data), "$ "), "\n$ ") {
		want = strings.TrimSuffix(want, "\n")
		command, _, _ := strings.Cut(want, "\n")
		got := command + "\n" + shell.run(t, command)
		got = strings.TrimSuffix(got, "\n")
		session.WriteString("$ " + got + "\n")
		if got != want && os.Getenv("TARN_WRITE_SESSION") == "" {
			t.Errorf("$ %s\n--- a real server\n%s", got, strings.TrimPrefix(strings.TrimPrefix(want, command), "\n"))
		}
	}
	if os.Getenv("TARN_WRITE_SESSION") == "true" && os.Getenv(oracleVariable) != "" {
		if err := os.WriteFile(sessionFile, []byte(session.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// terminal is where commands are run.
type terminal struct{ env []string }

func newTerminal(t *testing.T, kubectl string) *terminal {
	t.Helper()
	kubeconfig := []byte(nil)
	var err error
	if path := os.Getenv(oracleVariable); path != "" {
		kubeconfig, err = os.ReadFile(path)
	} else {
		kubeconfig, err = envtest.Start(t).KubeConfig()
	}
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	file := filepath.Join(home, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return &terminal{env: append(os.Environ(),
		"HOME="+home, "KUBECONFIG="+file, "LC_ALL=C", "TZ=UTC",
		"PATH="+filepath.Dir(kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"))}
}

// run runs a line of a shell and returns what it wrote, followed by its exit code unless that is zero.
func (s *terminal) run(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a command that waits for a controller would wait for ever
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env, cmd.Dir, cmd.WaitDelay = s.env, filepath.Dir(sessionFile), time.Second
	out, err := cmd.CombinedOutput()
	text := inCommon(string(out))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return text + "? " + strconv.Itoa(exit.ExitCode()) + "\n"
	} else if err != nil {
		t.Fatalf("$ %s\n%v", line, err)
	}
	return text
}

// individual are what each session has of its own, and the word for it.
var individual = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "TOKEN"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}( UTC)?|Z)`), "TIME"},
	{regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`resourceVersion: "\d+"`), "resourceVersion: VERSION"},
	{regexp.MustCompile(`\b10\.0\.0\.\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost):\d+`), "SERVER"},
	{regexp.MustCompile(`\b3[0-2]\d{3}\b`), "PORT"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d+)?m?s\b`), "AGE"},
	{regexp.MustCompile(`\S*/(LIVE|MERGED)-\d+`), "$1"},
	{regexp.MustCompile(`\b(kubernetes-)?admin\b`), "ADMIN"}, // who makes requests
	{regexp.MustCompile(`Context "\w+"`), "Context NAME"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "}, // columns are as wide as what is in them
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
}

// inCommon replaces what each session has of its own.
func inCommon(text string) string {
	for _, r := range individual {
		text = r.pattern.ReplaceAllString(text, r.word)
	}
	if text = strings.Trim(text, "\n"); text == "" {
		return ""
	}
	return text + "\n"
}
