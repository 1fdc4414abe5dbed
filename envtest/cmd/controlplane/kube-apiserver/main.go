// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube-apiserver is envtest.APIServerCommand: the API server of package envtest with the flags of the real
// kube-apiserver, for suites that start this binary, such as those of controller-runtime's envtest.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"k8s.io/component-base/cli"

	"github.com/tarn-dev/tarn/envtest"
)

func main() {
	collectLess()
	cmd, err := envtest.APIServerCommand()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
	os.Exit(cli.Run(cmd))
}

const (
	startTime    = 5 * time.Second // far more than a start takes
	startPercent = 400             // of the live heap may be garbage meanwhile
	usualPercent = 100             // Go's default
)

// collectLess lets the collector run less often during the start, unless the user's environment says how often. It took a third
// of the processor's time then, and most of what it looked at stays.
func collectLess() {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	debug.SetGCPercent(startPercent)
	time.AfterFunc(startTime, func() { debug.SetGCPercent(usualPercent) })
}
