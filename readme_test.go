// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/tarn-dev/tarn/pkg/cache"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestREADMECommands checks the two commands that CI takes from the README.
func TestREADMECommands(t *testing.T) {
	for marker, command := range map[string]string{
		"ci:run":  "go run ./examples/quickstart",
		"ci:test": "go test ./...",
	} {
		block := "<!-- " + marker + " -->\n```sh\n" + command + "\n```\n"
		if n := strings.Count(readme(t), block); n != 1 {
			t.Errorf("README.md has the block %q %d times, want it once", block, n)
		}
	}
}

// TestREADMECode checks that each Go block is copied from a file that compiles;
// the comment above it names the file.
func TestREADMECode(t *testing.T) {
	text := readme(t)
	blocks := regexp.MustCompile("(?s)<!-- code: (\\S+) -->\n```go\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	if n := strings.Count(text, "```go\n"); n == 0 || n != len(blocks) {
		t.Errorf("README.md has %d Go blocks, %d of them with a comment that names their file", n, len(blocks))
	}
	for _, block := range blocks {
		file, code := block[1], block[2]
		source, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if !contains(string(source), code) {
			t.Errorf("this block of README.md is not in %s:\n%s", file, code)
		}
	}
}

// contains reports whether code is in source, indented by up to three tabs.
func contains(source, code string) bool {
	for depth := range 4 {
		indent := strings.Repeat("\t", depth)
		lines := strings.Split(code, "\n")
		for i, line := range lines {
			if line != "" {
				lines[i] = indent + line
			}
		}
		if strings.Contains("\n"+source, "\n"+strings.Join(lines, "\n")) {
			return true
		}
	}
	return false
}

// TestREADMEOptions checks that the table of options is complete.
func TestREADMEOptions(t *testing.T) {
	text := readme(t)
	for prefix, options := range map[string]reflect.Type{
		"":          reflect.TypeFor[cache.Options](),
		"ByObject.": reflect.TypeFor[cache.ByObject](),
		"Config.":   reflect.TypeFor[cache.Config](),
	} {
		for i := range options.NumField() {
			name := "`" + prefix + options.Field(i).Name + "`"
			if !regexp.MustCompile(`(?m)^\|.*` + name + `.*\|$`).MatchString(text) {
				t.Errorf("the table of options in README.md has no %s", name)
			}
		}
	}
}

// TestLinks checks that every file exists that the documents link to.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)|src="([^"]+)"`)
	for document, folder := range map[string]string{"README.md": "", "docs/design.md": "docs/"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			target := found[1] + found[2]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(folder + target); err != nil {
				t.Errorf("%s links to %s: %v", document, target, err)
			}
		}
	}
}
