// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kubebuilder_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// mostBytes is by how many bytes the manager may be larger on Tarn's cache than on controller-runtime's.
const mostBytes = 4_650_000

// TestLinkedSize builds the managers of docs/versions.md, and another that uses every package of pkg for managers. It
// compares sizes, and looks for methods through which reflection can call any exported method by its name: for one such
// method the linker keeps all others too, a third of the program.
func TestLinkedSize(t *testing.T) {
	theirs, ours, all := build(t, "cmd/testdata/main.go"), build(t, "./cmd"), build(t, "./cmd", "-overlay="+withAll(t))
	if len(theirs.reflectMethods) > 0 {
		t.Errorf("a manager on controller-runtime's cache links such methods, so this test finds none of ours: %q", theirs.reflectMethods)
	}
	for _, method := range append(ours.reflectMethods, all.reflectMethods...) {
		t.Errorf("Tarn links %s", method)
	}
	more := ours.size - theirs.size
	t.Logf("%d bytes on controller-runtime's cache, %d on Tarn's, %d more; %d with pkg/client and pkg/inspect", theirs.size, ours.size, more, all.size)
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return // the figures are those of linux/amd64
	}
	if more > mostBytes {
		t.Errorf("Tarn's cache adds %d bytes to a manager, want at most %d", more, mostBytes)
	}
	row := regexp.MustCompile(`\| binary \| ([\d.]+) MB \| ([\d.]+) MB \| ([\d.]+) MB, \d+ % \|`).FindStringSubmatch(read(t, "../../docs/versions.md"))
	readme := regexp.MustCompile(`two modules and ([\d.]+) MB\]\(docs/versions.md\)`).FindStringSubmatch(read(t, "../../README.md"))
	if row == nil || readme == nil {
		t.Fatal("docs/versions.md or README.md does not say how large a manager becomes")
	}
	for n, bytes := range []int64{theirs.size, ours.size, more, more} {
		said := append(row[1:], readme[1])[n]
		if megabytes, _ := strconv.ParseFloat(said, 64); math.Abs(megabytes-float64(bytes)/1e6) > 0.25 {
			t.Errorf("a page says %s MB, and it is %d bytes", said, bytes)
		}
	}
}

// program is what the linker says of a program.
type program struct {
	size           int64
	reflectMethods []string // what it keeps, and why
}

func build(t *testing.T, what string, flags ...string) program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "manager")
	out, err := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-ldflags=-dumpdep", "-o", binary}, flags...), what)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out[:min(len(out), 2000)])
	}
	file, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	made := program{size: file.Size()}
	for line := range bytes.Lines(out) {
		if text := string(bytes.TrimSpace(line)); strings.HasSuffix(text, "<ReflectMethod>") {
			made.reflectMethods = append(made.reflectMethods, text)
		}
	}
	return made
}

// withAll writes an overlay with a manager that uses each package of pkg which is for a manager.
func withAll(t *testing.T) string {
	t.Helper()
	text := read(t, "cmd/main.go")
	for _, change := range [][2]string{
		{"import (", "import (\n\ttarnclient \"github.com/tarn-dev/tarn/pkg/client\"\n\t\"github.com/tarn-dev/tarn/pkg/inspect\""},
		{"NewCache:", "NewClient: tarnclient.New, NewCache:"},
		{"\treturn mgr.Start", "\tif _, err := inspect.New(mgr.GetCache(), inspect.Options{}); err != nil {\n\t\treturn err\n\t}\n\treturn mgr.Start"},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("cmd/main.go has no single %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	folder := t.TempDir()
	file, overlay := filepath.Join(folder, "main.go"), filepath.Join(folder, "overlay.json")
	replaced, err := filepath.Abs("cmd/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{file: text, overlay: fmt.Sprintf(`{"Replace": {%q: %q}}`, replaced, file)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
