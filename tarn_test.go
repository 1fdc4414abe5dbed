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
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tarn-dev/tarn"

// layers are the packages that form the cache and the Cacher, from the top: each may
// import those after it.
var layers = []string{"pkg/cache", "pkg/informers", "pkg/reader", "pkg/cacher", "internal/query", "pkg/watchcache", "pkg/index", "pkg/object", "pkg/flat"}

// TestImportsPointDown keeps the packages in order, so that each can be read and
// replaced with those below it alone.
func TestImportsPointDown(t *testing.T) {
	for folder, imports := range importsByFolder(t) {
		if !strings.HasPrefix(folder, "pkg/") {
			continue
		}
		layer := slices.Index(layers, folder)
		if layer < 0 {
			t.Errorf("%s has no place among the layers yet", folder)
			continue
		}
		for _, imported := range imports {
			within, ours := strings.CutPrefix(imported, module+"/")
			if ours && slices.Index(layers, within) <= layer {
				t.Errorf("%s imports %s: a package imports those below it alone", folder, within)
			}
		}
	}
}

// TestMapNamesEveryPackage keeps the list in doc.go complete.
func TestMapNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for folder := range importsByFolder(t) {
		if folder == "." || strings.Contains(folder, "internal") || strings.HasPrefix(folder, "examples/") {
			continue
		}
		if !strings.Contains(string(text), "//   - "+folder+" ") {
			t.Errorf("doc.go does not say what %s is for", folder)
		}
	}
}

// importsByFolder parses the module's Go files, without tests.
func importsByFolder(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := path.Dir(filepath.ToSlash(name))
		imports[folder] = append(imports[folder], paths(file.Imports)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

func paths(specs []*ast.ImportSpec) []string {
	var paths []string
	for _, spec := range specs {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil { // the parser has checked it
			paths = append(paths, p)
		}
	}
	return paths
}
