// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

var renewAPI = flag.Bool("renew-api", false, "write api.txt anew")

// TestExportedAPI compares what packages export with api.txt, so that a change of it is seen in review.
func TestExportedAPI(t *testing.T) {
	now := exportedAPI(t)
	if *renewAPI {
		if err := os.WriteFile("api.txt", []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(text), "\n"), strings.Split(now, "\n")
	for _, change := range []struct {
		sign      string
		from, not []string
	}{{"-", was, is}, {"+", is, was}} {
		for _, line := range change.from {
			if !slices.Contains(change.not, line) {
				t.Errorf("%s%s", change.sign, line)
			}
		}
	}
	if t.Failed() || string(text) != now {
		t.Errorf("api.txt is not what the packages export; if that is meant, run: go test . -run TestExportedAPI -renew-api")
	}
}

// exportedAPI has one line for each exported name of a package that others may import, with its type.
func exportedAPI(t *testing.T) string {
	t.Helper()
	lines := map[string]bool{}
	eachFile(t, parser.SkipObjectResolution, func(name string, file *ast.File, _ *token.FileSet) {
		folder := path.Dir(name)
		public := strings.HasPrefix(folder, "pkg/") || folder == "envtest" || strings.HasPrefix(folder, "envtest/")
		if !public || strings.Contains(folder, "internal") || file.Name.Name == "main" || !ast.FileExports(file) {
			return
		}
		for _, declaration := range file.Decls {
			for _, line := range exportsOf(declaration) {
				lines[folder+": "+line] = true
			}
		}
	})
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"
}

// exportsOf returns a line for each function, method, type, field, constant and variable of a declaration. Only
// its exported parts are left.
func exportsOf(declaration ast.Decl) (lines []string) {
	if f, ok := declaration.(*ast.FuncDecl); ok {
		if f.Recv != nil && !exportedReceiver(f.Recv.List[0].Type) {
			return nil
		}
		f.Body = nil
		return []string{source(f)}
	}
	d, ok := declaration.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range s.Names {
				lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Tok, name, source(s.Type))))
			}
		case *ast.TypeSpec:
			members := membersOf(s)
			lines = append(lines, "type "+source(s))
			for _, member := range members {
				lines = append(lines, "type "+s.Name.Name+", "+member)
			}
		}
	}
	return lines
}

// exportedReceiver reports whether a method is one of an exported type.
func exportedReceiver(of ast.Expr) bool {
	switch t := of.(type) {
	case *ast.StarExpr:
		return exportedReceiver(t.X)
	case *ast.IndexExpr:
		return exportedReceiver(t.X)
	case *ast.IndexListExpr:
		return exportedReceiver(t.X)
	case *ast.Ident:
		return t.IsExported()
	}
	return false
}

// membersOf takes the fields of a struct, or the methods of an interface, out of a type and returns them.
func membersOf(s *ast.TypeSpec) (members []string) {
	var fields *ast.FieldList
	switch of := s.Type.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return nil
	}
	for _, field := range fields.List {
		if len(field.Names) == 0 {
			members = append(members, source(field.Type))
		}
		for _, name := range field.Names {
			members = append(members, name.Name+" "+source(field.Type))
		}
	}
	fields.List = nil
	return members
}

// source returns Go code in one line, without comments.
func source(node ast.Node) string {
	if node == nil || node == ast.Expr(nil) {
		return ""
	}
	switch n := node.(type) {
	case *ast.FuncDecl:
		n.Doc = nil
	case *ast.TypeSpec:
		n.Doc, n.Comment = nil, nil
	}
	text := bytes.Buffer{}
	if spec, ok := node.(*ast.TypeSpec); ok {
		node = &ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{spec}}
	}
	if err := format.Node(&text, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(strings.TrimPrefix(text.String(), "type ")), " ")
}
