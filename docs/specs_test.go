// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// spec names a spec or a test, and its file.
type spec struct{ file, name string }

const (
	causesSpecs = "../pkg/cache/causes_test.go"
	peerSpecs   = "../pkg/cache/peer_test.go" // with controller-runtime's cache beside ours
	phasesSpecs = "../pkg/inspect/phases_test.go"
	lookSpecs   = "../pkg/inspect/api_test.go"
)

var inVain = spec{peerSpecs, "waits in vain, and is told why by ours alone"}

// causeSpecs has what brings about each cause that the page describes.
var causeSpecs = map[string][]spec{
	"listing": {{phasesSpecs, "is listing while the first list is not complete"}},
	"forbidden": {
		{causesSpecs, "forbidden has the rule to apply"}, inVain,
		{"../pkg/cache/managers_test.go", "neither starts nor ends with controller-runtime's cache and a field index"},
	},
	"unauthorized": {{causesSpecs, "of a cluster that cannot be asked"}, inVain},
	"TLS":          {{causesSpecs, "of a cluster that cannot be asked"}, inVain},
	"kind not served": {
		{"../pkg/cache/optional_test.go", "comes, goes and comes back with another scope, and its controller sees it"},
		{"../pkg/cache/returning_test.go", "follows in its version when another one is stored, and is dormant while its version is not served"},
		{"../pkg/cache/returning_test.go", "is cached though the notice of its CRD is lost: the watches that tell of it were cut, and begin again"},
		{"../pkg/cache/aggregated_test.go", "is dormant while there is none or its server is away, is cached when it is there, and goes with it"},
		{"../pkg/cache/aggregated_test.go", "is away without an effect on other groups"},
		{peerSpecs, "ends for a kind that is not served, and goes on with ours if the kind is optional"},
	},
	"kind cannot be watched": {
		{"../pkg/cache/unwatchable_test.go", "is refused at once if it cannot be listed either"},
		{"../pkg/cache/unwatchable_test.go", "is dormant with its verbs if it is optional, and a read asks nobody"}, inVain,
		{"../pkg/informers/unwatchable_test.go", "TestAKindThatCannotBeWatchedHasACause"},
	},
	"object cannot be decoded": {{causesSpecs, "object cannot be decoded has its key"}, inVain},
	"too many requests":        {inVain},
	"unavailable":              {inVain},
	"timeout":                  {inVain},
	"connection refused":       {inVain},
	"other":                    {inVain},
	"transform failed": {
		{causesSpecs, "is told in place of NotFound, until the object is received again"},
		{peerSpecs, "is told that an object does not exist whose transform failed, and what failed by ours"},
	},
	"index function failed": {{"trouble_test.go", "index function"}},
}

// phaseSpecs has what brings about each phase.
var phaseSpecs = map[inspected.Phase][]spec{
	"not started": {{phasesSpecs, "is not started, and then synced"}},
	"listing":     {{phasesSpecs, "is listing while the first list is not complete"}},
	"synced":      {{lookSpecs, "says where each informer is, and why"}},
	"not synced":  {{lookSpecs, "says where each informer is, and why"}},
	"dormant":     {{lookSpecs, "says where each informer is, and why"}},
	"interrupted": {{lookSpecs, "says that a kind that has synced cannot follow now"}},
	"incomplete":  {{phasesSpecs, "is incomplete when a transform has failed for an object"}},
	"silent":      {{phasesSpecs, "is silent when nothing has come for longer than a watch may be silent"}},
	"stalled":     {{"../pkg/informers/restored_test.go", "TestPhases"}},
}

// TestEachCauseAndPhaseHasASpec compares the tables above with the causes, the phases and the specs that there are.
func TestEachCauseAndPhaseHasASpec(t *testing.T) {
	source, err := os.ReadFile("../pkg/informers/cause.go")
	must(t, err)
	causes := regexp.MustCompile(`\w+ Cause = "(.+)"`).FindAllSubmatch(source, -1)
	if len(causes) < 12 {
		t.Errorf("cause.go has %d causes", len(causes))
	}
	for _, cause := range causes {
		if len(causeSpecs[string(cause[1])]) == 0 {
			t.Errorf("there is no spec for the cause %s", cause[1])
		}
	}
	if len(causeSpecs) != len(causes) || len(phaseSpecs) != len(inspected.Phases) {
		t.Errorf("there are specs for %d causes and %d phases, of %d and %d", len(causeSpecs), len(phaseSpecs), len(causes), len(inspected.Phases))
	}
	for _, phase := range inspected.Phases {
		if len(phaseSpecs[phase]) == 0 {
			t.Errorf("there is no spec for the phase %s", phase)
		}
		exist(t, phaseSpecs[phase])
	}
	for _, specs := range causeSpecs {
		exist(t, specs)
	}
}

// exist looks for the specs in their files.
func exist(t *testing.T, specs []spec) {
	t.Helper()
	for _, s := range specs {
		tests, err := os.ReadFile(s.file)
		is := regexp.MustCompile(`\("` + regexp.QuoteMeta(s.name) + `", func|func ` + regexp.QuoteMeta(s.name) + `\(|"` + regexp.QuoteMeta(s.name) + `": +\w+,`)
		if err != nil || !is.Match(tests) {
			t.Errorf("%q is not in %s: %v", s.name, s.file, err)
		}
	}
}
