// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
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
