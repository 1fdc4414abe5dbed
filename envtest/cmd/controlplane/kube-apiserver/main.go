// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube-apiserver is envtest.APIServerCommand: the API server of package envtest with the flags of the real
// kube-apiserver, for suites that start this binary, such as those of controller-runtime's envtest.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"

	"github.com/tarn-dev/tarn/envtest"
)

func main() {
	cmd, err := envtest.APIServerCommand()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
	os.Exit(cli.Run(cmd))
}
