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
	"strconv"
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
		if !isPublic(folder, file) || !ast.FileExports(file) {
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

// isPublic reports whether others may import the package of a file.
func isPublic(folder string, file *ast.File) bool {
	in := strings.HasPrefix(folder, "pkg/") || folder == "envtest" || strings.HasPrefix(folder, "envtest/")
	return in && !strings.Contains(folder, "internal") && file.Name.Name != "main"
}

// internalTypes are the exported names with a type of internal, which others cannot name, and why they are there.
var internalTypes = map[string]string{
	"pkg/informers: Shared.DecodedBudget": "the maps of one cache share it; nil is right for a map of its own",
	"pkg/informers: Shared.OwnWrites":     "as DecodedBudget",
	"pkg/informers: Shared.Served":        "as DecodedBudget",
	"pkg/informers: Shared.Metrics":       "as DecodedBudget",
	"pkg/informers: Map.NoteWrite":        "the way of a write from package client to the informers: nobody else knows what a response says",
	"pkg/informers: MapEntry.Inspected":   "the way of package inspect to an informer",
}

// TestNoExportedNameHasAnInternalType looks at the signatures of functions and methods, and at the types of fields. An alias
// is a name that others can use.
func TestNoExportedNameHasAnInternalType(t *testing.T) {
	found := map[string]bool{}
	eachFile(t, parser.SkipObjectResolution, func(name string, file *ast.File, _ *token.FileSet) {
		folder := path.Dir(name)
		if !isPublic(folder, file) || !ast.FileExports(file) {
			return
		}
		internal := internalImports(file)
		for name, of := range typesOf(file) {
			ast.Inspect(of, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if from, ok := s.X.(*ast.Ident); ok && internal[from.Name] {
						found[folder+": "+name] = true
						if internalTypes[folder+": "+name] == "" {
							t.Errorf("%s: %s has the type %s.%s, which others cannot name", folder, name, from.Name, s.Sel.Name)
						}
					}
				}
				return true
			})
		}
	})
	for name := range internalTypes {
		if !found[name] {
			t.Errorf("internalTypes lists %s, which has no type of internal", name)
		}
	}
}

// internalImports returns the names by which a file knows packages of internal.
func internalImports(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if !strings.Contains(imported, "/internal/") {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}

// typesOf returns the types of the functions, methods, fields, constants and variables of a file, by their names,
// without aliases. Only the exported parts of the file are left.
func typesOf(file *ast.File) map[string]ast.Node {
	types := map[string]ast.Node{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				if !exportedReceiver(d.Recv.List[0].Type) {
					continue
				}
				name = strings.TrimLeft(source(d.Recv.List[0].Type), "*") + "." + name
			}
			types[name] = d.Type
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					if s.Type != nil {
						types[s.Names[0].Name] = s.Type
					}
				case *ast.TypeSpec:
					addMembers(types, s)
				}
			}
		}
	}
	return types
}

// addMembers adds the types of the fields of a struct, or of the methods of an interface, or else that of a type.
func addMembers(types map[string]ast.Node, s *ast.TypeSpec) {
	fields := fieldsOf(s)
	if fields == nil {
		if !s.Assign.IsValid() {
			types[s.Name.Name] = s.Type
		}
		return
	}
	for _, field := range fields.List {
		if len(field.Names) == 0 {
			types[s.Name.Name+"."+source(field.Type)] = field.Type
		}
		for _, name := range field.Names {
			types[s.Name.Name+"."+name.Name] = field.Type
		}
	}
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

// fieldsOf returns the fields of a struct, or the methods of an interface, and nil for another type.
func fieldsOf(s *ast.TypeSpec) *ast.FieldList {
	switch of := s.Type.(type) {
	case *ast.StructType:
		return of.Fields
	case *ast.InterfaceType:
		return of.Methods
	}
	return nil
}

// membersOf takes the fields of a struct, or the methods of an interface, out of a type and returns them.
func membersOf(s *ast.TypeSpec) (members []string) {
	fields := fieldsOf(s)
	if fields == nil {
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
