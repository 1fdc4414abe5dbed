// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var renewMap = flag.Bool("renew-map", false, "write the map of packages in docs/design.md anew")

// mapMarks are around the map of packages in docs/design.md.
const (
	mapPage  = "docs/design.md"
	mapBegin = "<!-- map: begin -->\n"
	mapEnd   = "<!-- map: end -->\n"
)

// TestMapOfPackages compares the one map of packages with what each package says of itself.
func TestMapOfPackages(t *testing.T) {
	now := mapOfPackages(t)
	text, err := os.ReadFile(mapPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), mapBegin)
	was, after, ends := strings.Cut(rest, mapEnd)
	if !begins || !ends {
		t.Fatalf("%s has no map between %q and %q", mapPage, mapBegin, mapEnd)
	}
	if was == now {
		return
	}
	if *renewMap {
		if err := os.WriteFile(mapPage, []byte(before+mapBegin+now+mapEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for line := range strings.Lines(now) {
		if !strings.Contains(was, line) {
			t.Errorf("%s lacks %s", mapPage, line)
		}
	}
	t.Errorf("the map in %s is not that of the packages; run: go test . -run TestMapOfPackages -renew-map", mapPage)
}

// mapOfPackages has a line for each package that a reader has to find: what it says of itself. A room inside one of the
// server's has no line of its own, nor have the binaries inside their folder. The table rooms says what each may import.
func mapOfPackages(t *testing.T) string {
	t.Helper()
	says := map[string]string{}
	eachFile(t, parser.ParseComments|parser.PackageClauseOnly, func(name string, file *ast.File, _ *token.FileSet) {
		folder := path.Dir(name)
		if hidden := folder == "." || folder == "docs" || onMap(folder) != folder || strings.HasPrefix(folder, "bench/") ||
			strings.HasPrefix(folder, "examples") || strings.Contains(folder, "testdata"); !hidden {
			says[folder] = cmp.Or(says[folder], saysOfItself(file.Doc.Text()))
		}
	})
	text := "\n| package | what it is for |\n|---|---|\n"
	for _, folder := range slices.SortedFunc(maps.Keys(says), asOnMap) {
		if says[folder] == "" {
			t.Errorf("%s has no comment that says what it is for", folder)
		}
		text += fmt.Sprintf("| `%s` | %s |\n", folder, says[folder])
	}
	return text + "\n"
}

// onMap returns the folder whose line on the map is that of this one too.
func onMap(folder string) string {
	if within, found := strings.CutPrefix(folder, "envtest/internal/"); found {
		first, _, _ := strings.Cut(within, "/")
		return "envtest/internal/" + first
	}
	if strings.HasPrefix(folder, "envtest/cmd/controlplane/") {
		return path.Dir(folder)
	}
	return folder
}

// asOnMap orders folders as a reader looks for them: what is imported by users first.
func asOnMap(a, b string) int {
	trees := []string{"pkg", "internal", "envtest", "bench"}
	tree := func(folder string) int {
		first, _, _ := strings.Cut(folder, "/")
		return slices.Index(trees, first)
	}
	return cmp.Or(cmp.Compare(tree(a), tree(b)), cmp.Compare(a, b))
}

// saysOfItself returns what the first sentence of a package's comment says of the package.
func saysOfItself(comment string) string {
	sentence := new(doc.Package).Synopsis(comment)
	sentence = regexp.MustCompile(`^(Package|Command) \S+ `).ReplaceAllString(sentence, "")
	for _, detail := range []string{": ", "; ", ", for ", ", as ", ", so that ", ", once", ", in ", ", and lets ", ", which ", ", made ", ", and how ", ", written "} {
		sentence, _, _ = strings.Cut(sentence, detail)
	}
	return strings.TrimRight(sentence, ".:")
}
