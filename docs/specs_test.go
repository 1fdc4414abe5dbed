// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// TestEachCauseAndPhaseHasASpec compares the tables of the page with the causes, the phases and the specs
// that there are.
func TestEachCauseAndPhaseHasASpec(t *testing.T) {
	content, err := os.ReadFile(troublePage)
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(content), "## What shows it\n")
	causes, phases, found := strings.Cut(page, "| phase | spec |")
	if !found {
		t.Fatalf("%s has no table of phases", troublePage)
	}
	for _, phase := range informers.Phases {
		if !strings.Contains(phases, "`"+string(phase)+"`") {
			t.Errorf("%s has no spec for the phase %s", troublePage, phase)
		}
	}
	source, err := os.ReadFile("../pkg/informers/cause.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`\w+ Cause = "(.+)"`).FindAllSubmatch(source, -1)
	if len(all) < 12 {
		t.Errorf("cause.go has %d causes", len(all))
	}
	for _, cause := range all {
		if !strings.Contains(causes, "`"+string(cause[1])+"`") {
			t.Errorf("%s has no spec for the cause %s", troublePage, cause[1])
		}
	}
	named := regexp.MustCompile(`\]\((\.\./[^)]+_test\.go)\): "([^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(named) < 15 {
		t.Errorf("%s names %d specs", troublePage, len(named))
	}
	for _, spec := range named {
		tests, err := os.ReadFile(spec[1])
		if err != nil || !strings.Contains(string(tests), `("`+spec[2]+`", func`) {
			t.Errorf("%s names %q of %s, which is not there: %v", troublePage, spec[2], spec[1], err)
		}
	}
}
