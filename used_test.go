// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestEachExportedNameIsInAnExample looks for the types and functions of pkg in the programs of examples and in
// the files example_test.go: a name that nobody can use there is no name for others.
func TestEachExportedNameIsInAnExample(t *testing.T) {
	used := map[string]bool{}
	isExample := func(name string) bool {
		return strings.HasPrefix(name, "examples/") || path.Base(name) == "example_test.go"
	}
	eachFileOf(t, parser.SkipObjectResolution, isExample, func(_ string, file *ast.File, _ *token.FileSet) { addUsed(used, file) })
	eachFile(t, parser.SkipObjectResolution, func(name string, file *ast.File, _ *token.FileSet) {
		folder := path.Dir(name)
		if !strings.HasPrefix(folder, "pkg/") || !isPublic(folder, file) || !ast.FileExports(file) {
			return
		}
		for _, declared := range declaredBy(file) {
			if !used[folder+"."+declared] && notInExamples[folder+"."+declared] == "" {
				t.Errorf("%s.%s is in no example", folder, declared)
			}
		}
	})
	for name := range notInExamples {
		if used[name] {
			t.Errorf("notInExamples lists %s, which is in an example", name)
		}
	}
}

// notInExamples are names that no example has, and why they are there.
var notInExamples = map[string]string{
	"pkg/cacher.Cacher":            "what New returns",
	"pkg/cacher.Config":            "what New takes: a server has its stores by StorageWithCacher",
	"pkg/cacher.HistoryBudget":     "what NewHistoryBudget returns",
	"pkg/cacher.New":               "for a store that is made without a decorator",
	"pkg/index.Fields":             "what NewFields returns",
	"pkg/informers.Cause":          "the type of constants that are in examples",
	"pkg/informers.FailurePolicy":  "the type of constants that are in examples",
	"pkg/informers.Key":            "what KeyOf returns",
	"pkg/informers.Map":            "what NewMap returns",
	"pkg/informers.MapEntry":       "what Map.Get returns",
	"pkg/informers.Representation": "the type of a field of Key",
	"pkg/informers.StaleError":     "the example of package cache has it by its alias",
	"pkg/informers.Storage":        "the type of constants that are in examples",
	"pkg/lease.Lease":              "what Acquire returns",
}

// addUsed adds what a file names of the packages of this module, such as "pkg/cache.New".
func addUsed(used map[string]bool, file *ast.File) {
	names := map[string]string{}
	for _, spec := range file.Imports {
		imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
		if !ours {
			continue
		}
		names[path.Base(imported)] = imported
		if spec.Name != nil {
			names[spec.Name.Name] = imported
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if from, ok := s.X.(*ast.Ident); ok && names[from.Name] != "" {
				used[names[from.Name]+"."+s.Sel.Name] = true
			}
		}
		return true
	})
}

// declaredBy returns the names of the types and functions of a file, without aliases: others declare these.
func declaredBy(file *ast.File) (names []string) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && !s.Assign.IsValid() {
					names = append(names, s.Name.Name)
				}
			}
		}
	}
	return names
}
