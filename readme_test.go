// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"encoding/xml"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-dev/tarn/pkg/cache"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestREADMECommands checks the two commands that CI takes from the README.
func TestREADMECommands(t *testing.T) {
	for marker, command := range map[string]string{
		"ci:run":  "go run ./examples/quickstart",
		"ci:test": "go test ./...",
	} {
		block := "<!-- " + marker + " -->\n```sh\n" + command + "\n```\n"
		if n := strings.Count(readme(t), block); n != 1 {
			t.Errorf("README.md has the block %q %d times, want it once", block, n)
		}
	}
}

// TestREADMEBeginsWithAWholeProgram checks that a newcomer can copy the first Go block into a file of its own: it is all
// of a program that compiles, but for its license.
func TestREADMEBeginsWithAWholeProgram(t *testing.T) {
	found := regexp.MustCompile("(?s)<!-- code: (\\S+) -->\n```go\n(.*?)```\n").FindStringSubmatch(readme(t))
	if found == nil {
		t.Fatal("README.md has no Go block")
	}
	source, err := os.ReadFile(found[1])
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(source), "\n\n")
	if found[2] != program || !strings.HasPrefix(program, "package main\n") {
		t.Errorf("the first Go block of README.md is not all of %s", found[1])
	}
	if get := "```sh\ngo get " + module; !strings.Contains(readme(t), get) {
		t.Errorf("README.md does not say %q", get)
	}
}

// TestVariablesAreDocumented checks that CONTRIBUTING.md has each variable of the environment that code reads, and no other.
func TestVariablesAreDocumented(t *testing.T) {
	variable := regexp.MustCompile(`\bTARN_[A-Z_]*[A-Z]\b`)
	used := map[string]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".go" && !strings.HasPrefix(name, ".ci/") && !strings.HasPrefix(name, ".github/") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, found := range variable.FindAllString(string(source), -1) {
			used[found] = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(documents(t)["CONTRIBUTING.md"], "\n### Variables\n")
	section, _, _ = strings.Cut(section, "\n#")
	documented := variable.FindAllString(section, -1)
	for found, name := range used {
		if !slices.Contains(documented, found) {
			t.Errorf("the table of variables in CONTRIBUTING.md lacks %s of %s", found, name)
		}
	}
	for _, found := range documented {
		if used[found] == "" {
			t.Errorf("CONTRIBUTING.md has a variable that nothing reads: %s", found)
		}
	}
}

// documents returns the text of every page, by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pages {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	return texts
}

// TestDocumentedCode checks that each Go block is copied from a file that compiles;
// the comment above it names the file.
func TestDocumentedCode(t *testing.T) {
	marked := regexp.MustCompile("(?s)<!-- code: (\\S+) -->\n```go\n(.*?)```\n")
	if !marked.MatchString(readme(t)) {
		t.Error("README.md has no Go block with a comment that names its file")
	}
	for document, text := range documents(t) {
		blocks := marked.FindAllStringSubmatch(text, -1)
		if n := strings.Count(text, "```go\n"); n != len(blocks) {
			t.Errorf("%s has %d Go blocks, %d of them with a comment that names their file", document, n, len(blocks))
		}
		for _, block := range blocks {
			file, code := block[1], block[2]
			source, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", document, err)
				continue
			}
			if !contains(string(source), code) {
				t.Errorf("this block of %s is not in %s:\n%s", document, file, code)
			}
		}
	}
}

// TestDocumentedChanges checks the blocks that show how one file became another: the
// comment above a block names both. All that differs must be shown, in one block or
// in several; lines that are only indented otherwise count as the same.
func TestDocumentedChanges(t *testing.T) {
	marked := regexp.MustCompile("(?s)<!-- diff: (\\S+) (\\S+) -->\n```diff\n(.*?)```\n")
	for document, text := range documents(t) {
		shown := map[[2]string]map[string]int{} // by the files, how often more a line is in the second
		blocks := marked.FindAllStringSubmatch(text, -1)
		if n := strings.Count(text, "```diff\n"); n != len(blocks) {
			t.Errorf("%s has %d blocks of changes, %d of them with a comment that names the files", document, n, len(blocks))
		}
		for _, block := range blocks {
			files := [2]string{block[1], block[2]}
			if shown[files] == nil {
				shown[files] = map[string]int{}
			}
			for line := range strings.Lines(block[3]) {
				switch code := words(line[1:]); line[0] {
				case '+':
					shown[files][code]++
				case '-':
					shown[files][code]--
				default:
					if !slices.Contains(lines(t, files[0]), code) || !slices.Contains(lines(t, files[1]), code) {
						t.Errorf("%s shows a line that is not in both of %q: %s", document, files, line)
					}
				}
			}
		}
		for files, shown := range shown {
			for i, file := range files {
				for _, line := range lines(t, file) {
					shown[line] -= 2*i - 1
				}
			}
			for line, n := range shown {
				if n != 0 {
					t.Errorf("%s and %q disagree by %+d about this line: %s", document, files, n, line)
				}
			}
		}
	}
}

// lines returns the lines of a file, without indentation.
func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		all = append(all, words(line))
	}
	return all
}

// words returns a line with single spaces between its words.
func words(line string) string { return strings.Join(strings.Fields(line), " ") }

// TestDocumentedTests checks that the tests exist that the documents name.
func TestDocumentedTests(t *testing.T) {
	var tests []string
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, found := range declared.FindAllSubmatch(source, -1) {
			tests = append(tests, string(found[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for document, text := range documents(t) {
		for _, named := range regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			if !slices.Contains(tests, named[1]) {
				t.Errorf("%s names %s, and there is no such test", document, named[1])
			}
		}
	}
}

// TestDocumentedNumbers checks the numbers in the documents: a comment beside each names its file
// and its line.
func TestDocumentedNumbers(t *testing.T) {
	marked := regexp.MustCompile(`<!-- const: (\S+): (.+?) -->`)
	found := 0
	for document, text := range documents(t) {
		for _, mark := range marked.FindAllStringSubmatch(text, -1) {
			found++
			source, err := os.ReadFile(mark[1])
			if err != nil {
				t.Errorf("%s: %v", document, err)
				continue
			}
			words := strings.Fields(mark[2])
			for i, word := range words {
				words[i] = regexp.QuoteMeta(word)
			}
			line := `(?m)^\s*(const )?` + strings.Join(words, `\s+`) + `(\s*//.*)?$`
			if !regexp.MustCompile(line).Match(source) {
				t.Errorf("%s says what %q in %s is, and that is no longer there", document, mark[2], mark[1])
			}
		}
	}
	if found == 0 {
		t.Error("no document has a comment that begins with const:")
	}
}

// contains reports whether code is in source, indented by up to three tabs.
func contains(source, code string) bool {
	for depth := range 4 {
		indent := strings.Repeat("\t", depth)
		lines := strings.Split(code, "\n")
		for i, line := range lines {
			if line != "" {
				lines[i] = indent + line
			}
		}
		if strings.Contains("\n"+source, "\n"+strings.Join(lines, "\n")) {
			return true
		}
	}
	return false
}

// TestDocumentedOptions checks that the tables of options are complete.
func TestDocumentedOptions(t *testing.T) {
	text := documents(t)["docs/options.md"]
	for prefix, options := range map[string]reflect.Type{
		"":          reflect.TypeFor[cache.Options](),
		"ByObject.": reflect.TypeFor[cache.ByObject](),
		"Config.":   reflect.TypeFor[cache.Config](),
		"Tuning.":   reflect.TypeFor[cache.Tuning](),
	} {
		for _, option := range reflect.VisibleFields(options) {
			name := "`" + prefix + option.Name + "`"
			if !regexp.MustCompile(`(?m)^\|.*` + name + `.*\|$`).MatchString(text) {
				t.Errorf("the tables of docs/options.md have no %s", name)
			}
		}
	}
}

// TestREADMEFigures checks that the ratios of the README are those of the benchmark,
// with so many Pods, and with the other heap of a manager.
func TestREADMEFigures(t *testing.T) {
	_, section, _ := strings.Cut(readme(t), "\n## What it costs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	measured := rows(documents(t)["bench/README.md"])
	shown := rows(section)
	if len(shown) < 3 {
		t.Fatal("README.md has no table of figures")
	}
	for _, row := range shown[2:] {
		var ratios []string
		for _, measure := range measured {
			if len(measure) != 2*len(row)-1 || measure[0] != row[0] {
				continue
			}
			for i := 2; i < len(measure); i += 2 { // each number of Pods has a column without other heap, and one with it
				ratio, _, _ := strings.Cut(measure[i], " ")
				ratios = append(ratios, strings.Trim(ratio, "*"))
			}
		}
		if !slices.Equal(row[1:], ratios) {
			t.Errorf("README.md says of %q %q, bench/README.md %q", row[0], row[1:], ratios)
		}
	}
}

// rows returns the cells of the tables in a text.
func rows(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 3 {
			continue
		}
		cells = cells[1 : len(cells)-1]
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// TestREADMEIsShort keeps the README to what a newcomer needs: the rest has pages.
func TestREADMEIsShort(t *testing.T) {
	const most = 650
	if n := len(strings.Fields(visible(readme(t)))); n >= most {
		t.Errorf("README.md has %d words, want less than %d", n, most)
	}
}

// TestPagesAreShort keeps docs to what can be read in an afternoon. A page that has to say more replaces text, here or
// on another page: each behaviour is told once.
func TestPagesAreShort(t *testing.T) {
	const most, mostOfOne = 16_000, 2_400
	all := 0
	for document, text := range documents(t) {
		if filepath.Dir(document) != "docs" {
			continue
		}
		n := len(strings.Fields(text))
		if all += n; n > mostOfOne {
			t.Errorf("%s has %d words, want at most %d", document, n, mostOfOne)
		}
	}
	if all > most {
		t.Errorf("the pages in docs have %d words, want at most %d", all, most)
	}
}

// visible returns text without comments.
func visible(text string) string {
	return regexp.MustCompile(`(?s)<!--.*?-->`).ReplaceAllString(text, "")
}

// TestDrawings checks that every drawing is XML, has a text for readers who cannot see it, and is
// shown by a document.
func TestDrawings(t *testing.T) {
	drawings, err := filepath.Glob("docs/*.svg")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, text := range documents(t) {
		all += visible(text)
	}
	for _, drawing := range drawings {
		text, err := os.ReadFile(drawing)
		if err != nil {
			t.Fatal(err)
		}
		image := struct {
			XMLName xml.Name `xml:"svg"`
			Title   string   `xml:"title"`
			Label   string   `xml:"aria-label,attr"`
		}{}
		if err := xml.Unmarshal(text, &image); err != nil {
			t.Errorf("%s: %v", drawing, err)
		}
		if image.Title+image.Label == "" {
			t.Errorf("%s has neither a title nor a label", drawing)
		}
		if !strings.Contains(all, filepath.Base(drawing)) {
			t.Errorf("no document shows %s", drawing)
		}
	}
}

// TestLinks checks that every file exists that the documents link to, and in a page
// the heading.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)]+)\)|src="([^"]+)"`)
	for document, text := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(visible(text), -1) {
			target := found[1] + found[2]
			if strings.Contains(target, "://") {
				continue
			}
			file, heading, _ := strings.Cut(target, "#")
			linked := []byte(text)
			if file != "" {
				name := filepath.Join(filepath.Dir(document), file)
				if info, err := os.Stat(name); err != nil {
					t.Errorf("%s links to %s: %v", document, target, err)
					continue
				} else if info.IsDir() {
					continue
				}
				linked, _ = os.ReadFile(name)
			}
			if heading != "" && !slices.Contains(headings(string(linked)), heading) {
				t.Errorf("%s links to %s: there is no such heading", document, target)
			}
		}
	}
}

// headings returns the names under which a code host links to the headings of a page.
func headings(text string) []string {
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
