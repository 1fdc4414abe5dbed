// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"os"
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

// droppedWords are nouns that had several meanings, or that the field knows by another name, which comes after them.
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

// TestDroppedWords checks that pages use the words of the glossary. What stands in code keeps the name that it has there.
func TestDroppedWords(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)]*\\)|\\w+=\\w+")
	for document, text := range documents(t) {
		prose := strings.ToLower(words(code.ReplaceAllString(visible(text), " ")))
		for dropped, now := range droppedWords {
			for _, found := range regexp.MustCompile(`\b(`+dropped+`)\b`).FindAllString(prose, -1) {
				t.Errorf("%s says %q; say it with: %s", document, found, now)
			}
		}
	}
}
