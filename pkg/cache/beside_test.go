// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/tarn-dev/tarn/internal/specs"
)

// beside are the files whose specs wait the longest, for discovery and time-outs of Kubernetes. A process runs those of each entry, beside
// the others.
var beside = [][]string{
	{"returning_test.go", "aggregated_test.go"},
	{"managers_test.go", "optional_test.go", "unwatchable_test.go", "peer_test.go"},
}

// ranSome finds that specs ran.
var ranSome = regexp.MustCompile(`\nRan [1-9]`)

// runBeside begins the other processes. It returns the files that they have, and a function that waits for them. If the caller chooses specs,
// or all share one server, there are none.
func runBeside(t *testing.T) (theirs []string, wait func()) {
	t.Helper()
	suite, _ := GinkgoConfiguration()
	if specs.OnOracle() || suite.ParallelTotal > 1 || suite.LabelFilter != "" || len(suite.FocusStrings)+len(suite.FocusFiles)+len(suite.SkipStrings)+len(suite.SkipFiles) > 0 {
		return nil, func() {}
	}
	var running sync.WaitGroup
	for _, files := range beside {
		theirs = append(theirs, files...)
		arguments := []string{"-test.run=^TestCache$", fmt.Sprintf("-ginkgo.seed=%d", suite.RandomSeed), "-ginkgo.no-color"}
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
	return theirs, running.Wait
}
