// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// wideStructs have more fields than [TestStructsAreSmall] allows, for the reason that each says. Their numbers may only become
// smaller: lower them here with each change that makes them so, and add none.
var wideStructs = map[string]int{
	"envtest/internal/builtin/kind.Kind": 42, // a row, whose parts are its stages: literals name them, and most leave most fields out
	"internal/flat/decode.decoder":       19, // it lives on the stack, and reads every byte through its parts
	"internal/pending.Writes":            21,
	"pkg/cacher.Config":                  21, // it has upstream's 13 fields, and Options
}

// TestStructsAreSmall bounds what a reader has to know of one value: the fields of a struct, with those of its embedded and
// nested parts of the same package instead of the parts. A pointer to another struct is one field: that is a value of its own.
// A struct whose fields all have a name in JSON, or are embedded structs of that kind, is a document, and is left out.
func TestStructsAreSmall(t *testing.T) {
	const most = 16
	structs := structsByFolder(t)
	seen := map[string]bool{}
	for folder, named := range structs {
		for name, s := range named {
			n, full := expanded(named, s), folder+"."+name
			limit, wide := wideStructs[full]
			if !wide {
				limit = most
			}
			if n > limit && !isDocument(named, s) {
				t.Errorf("%s has %d fields with those of its parts, want at most %d: split it by subject", full, n, limit)
			}
			if seen[full] = true; wide && n < limit {
				t.Errorf("%s has %d fields: lower its number in wideStructs, or take it out", full, n)
			}
		}
	}
	for name := range wideStructs {
		if !seen[name] {
			t.Errorf("wideStructs lists %s, which is not there", name)
		}
	}
}

// expanded returns the number of fields of a struct, with those of the structs of its package that are in it.
func expanded(named map[string]*ast.StructType, s *ast.StructType) (n int) {
	for _, field := range s.Fields.List {
		each := 1
		if part := partOf(named, field.Type); part != nil {
			each = expanded(named, part)
		}
		n += each * max(len(field.Names), 1)
	}
	return n
}

// partOf returns the struct of the package that a field has as its value, or nil.
func partOf(named map[string]*ast.StructType, of ast.Expr) *ast.StructType {
	switch e := of.(type) {
	case *ast.Ident:
		return named[e.Name]
	case *ast.IndexExpr: // of a generic type
		return partOf(named, e.X)
	case *ast.IndexListExpr:
		return partOf(named, e.X)
	case *ast.StructType:
		return e
	}
	return nil
}

// isDocument reports whether all fields of a struct have a name in JSON, and those of its embedded structs too.
func isDocument(named map[string]*ast.StructType, s *ast.StructType) bool {
	for _, field := range s.Fields.List {
		if part := partOf(named, field.Type); len(field.Names) == 0 && part != nil && isDocument(named, part) {
			continue
		}
		if field.Tag == nil {
			return false
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if name := reflect.StructTag(tag).Get("json"); err != nil || name == "" || name == "-" {
			return false
		}
	}
	return true
}

// structsByFolder returns the structs that each room declares, by their names.
func structsByFolder(t *testing.T) map[string]map[string]*ast.StructType {
	t.Helper()
	structs := map[string]map[string]*ast.StructType{}
	eachFile(t, parser.SkipObjectResolution, func(name string, file *ast.File, _ *token.FileSet) {
		folder := path.Dir(name)
		if !isMeasured(folder) || strings.HasPrefix(path.Base(name), "zz_generated") {
			return
		}
		if structs[folder] == nil {
			structs[folder] = map[string]*ast.StructType{}
		}
		for _, declaration := range file.Decls {
			if d, ok := declaration.(*ast.GenDecl); ok {
				for _, spec := range d.Specs {
					if s, is := structOf(spec); is {
						structs[folder][spec.(*ast.TypeSpec).Name.Name] = s
					}
				}
			}
		}
	})
	return structs
}
