// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGlossary checks that the words of doc.go are few, in order, each defined once, and in use.
func TestGlossary(t *testing.T) {
	const most = 25
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, glossary, found := strings.Cut(string(source), "\n// # Glossary\n")
	if !found {
		t.Fatal("doc.go has no glossary")
	}
	var terms []string
	for _, definition := range regexp.MustCompile(`(?m)^//   - ([^:\n]+): \S`).FindAllStringSubmatch(glossary, -1) {
		terms = append(terms, definition[1])
	}
	if n := strings.Count(glossary, "\n//   - "); n != len(terms) || n == 0 || n > most {
		t.Errorf("the glossary has %d lines, %d with a meaning, want at most %d", n, len(terms), most)
	}
	if !slices.IsSorted(terms) || len(slices.Compact(slices.Clone(terms))) != len(terms) {
		t.Errorf("the words are not in order, or one is there twice: %q", terms)
	}
	var used strings.Builder
	for _, text := range documents(t) {
		used.WriteString(strings.ToLower(words(visible(text))))
	}
	for _, term := range terms {
		if !strings.Contains(used.String(), term) {
			t.Errorf("no page uses %q, so the glossary does not need it", term)
		}
	}
}

// droppedWords are nouns with several meanings, or with another name in the field, and the words to say instead.
var droppedWords = map[string]string{
	`parked`: "catching up, dormant",
	`(an?|the|each|one|every|this|that|its|of|shared|initial) walks?|walks of`: "shared replay",
	`misfits?`:                "decode error",
	`silence`:                 "idle timeout",
	`traffic`:                 "counters",
	`intake`:                  "reflector store",
	`arrivals?`:               "decoded event",
	`pins`:                    "retained bytes",
	`stations?`:               "fault point",
	`ownwrites`:               "pending writes",
	`doubts?`:                 "ambiguous write",
	`floors?`:                 "minimum revision",
	`in the place of`:         "in place of",
	`to who|of who|by who`:    "a noun",
	`of which [^.]* of which`: "two sentences",
}

// TestDroppedWords checks that pages and drawings use the words of the glossary. Names in code stay.
func TestDroppedWords(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)|\\w+=\\w+")
	drawn := regexp.MustCompile(`<style>[^<]*</style>|<[^>]*>`)
	texts := documents(t)
	drawings, err := filepath.Glob("docs/*.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range drawings {
		drawing, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = drawn.ReplaceAllString(string(drawing), " ")
	}
	for document, text := range texts {
		prose := strings.ToLower(words(code.ReplaceAllString(visible(text), " ")))
		for dropped, now := range droppedWords {
			for _, found := range regexp.MustCompile(`\b(`+dropped+`)\b`).FindAllString(prose, -1) {
				t.Errorf("%s says %q; say it with: %s", document, found, now)
			}
		}
	}
}

// vagueSubjects are beginnings of sentences, and nouns, that do not say what is meant.
var vagueSubjects = regexp.MustCompile(`(?:^|[.:;!] )(?:One (?:that|which|of which|whose)|Those|Who)\b` +
	`|\b(?:to|of|by|for|with|from|than) who\b|in the place of|of which [^.:;]* of which` +
	`|\b(?:parked|misfits?|intake|arrivals|doubts|stations?|shared walk)\b`)

// TestCommentsNameTheirSubjects checks the comments of all Go files, with tests.
func TestCommentsNameTheirSubjects(t *testing.T) {
	if n := len(vagueSubjects.FindAllString("One that waits for who asks. Those in the place of a station: who knows", -1)); n != 5 {
		t.Fatalf("the expression finds %d of 5", n)
	}
	written := func(name string) bool { return !strings.HasPrefix(path.Base(name), "zz_generated") }
	eachFileOf(t, parser.ParseComments|parser.SkipObjectResolution, written, func(_ string, file *ast.File, positions *token.FileSet) {
		for _, comment := range file.Comments {
			for paragraph := range strings.SplitSeq(comment.Text(), "\n\n") {
				for _, found := range vagueSubjects.FindAllString(words(paragraph), -1) {
					t.Errorf("%s: a comment has %q: name what is meant", positions.Position(comment.Pos()), found)
				}
			}
		}
	})
}

// TestDocumentedNames checks that the names exist by which pages call parts of the exported API.
func TestDocumentedNames(t *testing.T) {
	api, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{
		"cache": "pkg/cache", "inspect": "pkg/inspect", "cacher": "pkg/cacher", "envtest": "envtest", "faults": "envtest/faults",
		"nodes": "envtest/nodes", "components": "envtest/components", "campaign": "envtest/campaign", "controllers": "envtest/controllers",
		"kubebuilder": "envtest/kubebuilder", "Tuning": "pkg/(cache|informers)", "Plan": "envtest/campaign",
	}
	span := regexp.MustCompile("`[^`\n]*`")
	name := regexp.MustCompile(`\b(\w+)\.([A-Z]\w+)`)
	found := 0
	for document, text := range documents(t) {
		for _, code := range span.FindAllString(visible(text), -1) {
			for _, named := range name.FindAllStringSubmatch(code, -1) {
				folder, ours := packages[named[1]]
				if !ours {
					continue
				}
				found++
				// Methods, fields and functions have the name behind a space; their type or package is before it.
				if !regexp.MustCompile(`(?m)^` + folder + `: .*\b` + named[2] + `\b`).Match(api) {
					t.Errorf("%s names %s.%s, which %s does not export", document, named[1], named[2], folder)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("pages name %d parts of the API", found)
	}
}
