// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
)

// ranSome finds that specs ran.
var ranSome = regexp.MustCompile(`\nRan [1-9]`)

// Run runs a suite. Each entry of beside has files of the suite, whose specs run in a process of their own, at the same time as this one
// runs the rest: it is for specs that wait more than they compute. If the caller chooses specs, wants a report of them, or all share the oracle, one process
// runs all.
func Run(t *testing.T, name string, beside ...[]string) {
	t.Helper()
	suite, reporter := ginkgo.GinkgoConfiguration()
	chosen := suite.LabelFilter != "" || suite.SemVerFilter != "" || suite.DryRun || reporter.WillGenerateReport() ||
		len(suite.FocusStrings)+len(suite.FocusFiles)+len(suite.SkipStrings)+len(suite.SkipFiles) > 0
	if !chosen && !OnOracle() && suite.ParallelTotal == 1 {
		defer runBeside(t, suite.RandomSeed, beside)()
		suite.SkipFiles = slices.Concat(beside...)
	}
	ginkgo.RunSpecs(t, name, suite, reporter)
}

// runBeside begins other processes, and returns a function that waits for them.
func runBeside(t *testing.T, seed int64, beside [][]string) (wait func()) {
	t.Helper()
	var running sync.WaitGroup
	for _, files := range beside {
		arguments := []string{fmt.Sprintf("-test.run=^%s$", t.Name()), fmt.Sprintf("-ginkgo.seed=%d", seed), "-ginkgo.no-color"}
		if deadline, has := t.Deadline(); has { // it says what hangs, before this process ends
			arguments = append(arguments, fmt.Sprintf("-test.timeout=%s", time.Until(deadline)*9/10))
		}
		for _, file := range files {
			arguments = append(arguments, "-ginkgo.focus-file="+file)
		}
		var said bytes.Buffer
		command := exec.CommandContext(t.Context(), os.Args[0], arguments...)
		command.Stdout, command.Stderr = &said, &said
		if err := command.Start(); err != nil { // before the suite looks which goroutines there are
			t.Fatal(err)
		}
		running.Go(func() {
			if err := command.Wait(); err != nil {
				t.Errorf("%v: %v\n%s", files, err, &said)
			} else if !ranSome.Match(said.Bytes()) {
				t.Errorf("%v: no specs ran\n%s", files, &said)
			}
		})
	}
	return running.Wait
}
