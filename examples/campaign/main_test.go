// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest/campaign"
)

// TestNoBugIsFoundWhereThereIsNone makes the whole campaign for the operator as it should be.
func TestNoBugIsFoundWhereThereIsNone(t *testing.T) {
	quiet()
	report, err := campaign.Run(t.Context(), planFor(noBug))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Runs) < 30 || len(report.Differing()) > 0 {
		t.Error(report)
	}
}

// TestBugsAreFound makes, for each bug, the run that must show it, as the page says. Other runs may, too.
func TestBugsAreFound(t *testing.T) {
	quiet()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for b, c := range map[bug]struct{ fault, want string }{
		staleRead:    {"stale cache: event ADDED core/pods default/web-* #1", "v1 Pod default/web-* (2) is there"},
		writtenTwice: {"lost answer: create core/configmaps default/journal #1", `data.web is "v1 ran. v1 ran. ", and not "v1 ran. "`},
		lostEvent:    {"restart: event DELETED core/configmaps default/web #1", "v1 Pod default/web is there"},
	} {
		plan := planFor(b)
		plan.Only = c.fault
		report, err := campaign.Run(t.Context(), plan)
		if err != nil {
			t.Errorf("%s: %v", b, err)
			continue
		}
		found := report.Differing()
		if len(found) != 1 || len(found[0].Differences) < 2 || !strings.Contains(found[0].Differences[1], c.want) {
			t.Errorf("an operator with %s has %s", b, report)
			continue
		}
		shown := fmt.Sprintf("\nDIFFERS\n  Only: %q\n  %s\n", found[0].Fault, strings.Join(found[0].Differences[:2], "\n  "))
		if !strings.Contains(string(page), shown) {
			t.Errorf("the page does not show%s", shown)
		}
	}
}

func TestFlags(t *testing.T) {
	quiet()
	err := run(t.Context(), []string{"-bug", string(lostEvent), "-only", "nothing"}, io.Discard, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "an operator with a lost event: ") || !strings.Contains(err.Error(), `there is no "nothing" in this campaign`) {
		t.Error(err)
	}
}

func quiet() {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
}
