// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFilesAreListed checks that a package comment with a list of files names each file of the package, and no other.
func TestFilesAreListed(t *testing.T) {
	files, lists := map[string][]string{}, map[string]string{}
	eachFile(t, parser.ParseComments|parser.PackageClauseOnly, func(name string, file *ast.File, _ *token.FileSet) {
		folder := path.Dir(name)
		if _, list, found := strings.Cut(file.Doc.Text(), "\n# Files\n"); found {
			lists[folder] = list
		}
		if base := path.Base(name); base != "doc.go" {
			files[folder] = append(files[folder], base)
		}
	})
	if len(lists) < 10 {
		t.Fatalf("%d packages have a list of files", len(lists))
	}
	goFile := regexp.MustCompile(`[a-z0-9_]+\.go\b`)
	for folder, list := range lists {
		named := goFile.FindAllString(list, -1)
		for _, file := range files[folder] {
			if !slices.Contains(named, file) {
				t.Errorf("the list of files in the comment of package %s lacks %s", folder, file)
			}
		}
		for _, file := range named {
			if !slices.Contains(files[folder], file) {
				t.Errorf("the comment of package %s lists %s, which is not there", folder, file)
			}
		}
	}
}

// TestScriptsNameWhatIsThere checks the folders and the fuzzing targets in the scripts of CI: go test succeeds without a
// test that it does not find. Every fuzzing target is run.
func TestScriptsNameWhatIsThere(t *testing.T) {
	folder := regexp.MustCompile(`\./((?:bench|envtest|examples|internal|pkg)(?:/\w+)*)`)
	target := regexp.MustCompile(`\b(\w+(?:/\w+)*)/(Fuzz\w+)`)
	targets := 0
	for _, script := range []string{".ci/run", ".ci/full"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range folder.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(named[1]); err != nil {
				t.Errorf("%s: %v", script, err)
			}
		}
		for _, named := range target.FindAllStringSubmatch(string(text), -1) {
			targets++
			tests, _ := filepath.Glob(filepath.Join("internal", named[1], "*_test.go"))
			if !slices.ContainsFunc(tests, func(name string) bool {
				source, err := os.ReadFile(name)
				return err == nil && strings.Contains(string(source), "\nfunc "+named[2]+"(")
			}) {
				t.Errorf("%s: internal/%s has no %s", script, named[1], named[2])
			}
		}
	}
	if targets == 0 {
		t.Error("no script fuzzes anything")
	}
	full, err := os.ReadFile(".ci/full")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("internal", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, declared := range regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`).FindAllSubmatch(source, -1) {
			if !strings.Contains(string(full), "/"+string(declared[1])) {
				t.Errorf(".ci/full does not run %s of %s", declared[1], name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
