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

// Run runs a suite. The specs of some files run in other processes, those of each entry of beside in one, because they wait more than they
// compute. If the caller chooses specs, or all share one server, one process runs them.
func Run(t *testing.T, name string, beside ...[]string) {
	t.Helper()
	suite, reporter := ginkgo.GinkgoConfiguration()
	if !OnOracle() && suite.ParallelTotal == 1 && suite.LabelFilter == "" && len(suite.FocusStrings)+len(suite.FocusFiles)+len(suite.SkipStrings)+len(suite.SkipFiles) == 0 {
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
		if deadline, has := t.Deadline(); has {
			arguments = append(arguments, fmt.Sprintf("-test.timeout=%s", time.Until(deadline)))
		}
		for _, file := range files {
			arguments = append(arguments, "-ginkgo.focus-file="+file)
		}
		running.Go(func() {
			var said bytes.Buffer
			command := exec.CommandContext(t.Context(), os.Args[0], arguments...)
			command.Stdout, command.Stderr = &said, &said
			if err := command.Run(); err != nil {
				t.Errorf("%v: %v\n%s", files, err, &said)
			} else if !ranSome.Match(said.Bytes()) {
				t.Errorf("%v: no specs ran\n%s", files, &said)
			}
		})
	}
	return running.Wait
}
