// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is etcd and kube-apiserver in one file, for suites that start these binaries, such as those of
// controller-runtime's envtest. Which of them it is depends on the name by which it is started. envtest/cmd/assets -tarn
// builds it and puts it under both names.
//
// As etcd it is etcd's own main function. A test's etcd has one member, and need not wait for others: unless the variables
// ETCD_HEARTBEAT_INTERVAL and ETCD_ELECTION_TIMEOUT or the flags say otherwise, elections are quick.
//
// As kube-apiserver it is envtest.APIServerCommand.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"

	"github.com/tarn-dev/tarn/envtest"
)

func main() {
	switch name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"); name {
	case "etcd":
		presetEtcd()
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(apiserver())
	default:
		fmt.Fprintf(os.Stderr, "%s: start this program by the name etcd or kube-apiserver: "+
			"go run github.com/tarn-dev/tarn/envtest/cmd/assets -tarn puts it under both\n", name)
		os.Exit(2)
	}
}

// etcdPresets are settings of etcd that a test would choose. Flags come before them, and so does the user's environment.
var etcdPresets = map[string]string{
	"ETCD_HEARTBEAT_INTERVAL":             "10",  // milliseconds
	"ETCD_ELECTION_TIMEOUT":               "100", // milliseconds
	"ETCD_WATCH_PROGRESS_NOTIFY_INTERVAL": "5s",
}

// presetEtcd sets what the environment does not.
func presetEtcd() {
	for name, value := range etcdPresets {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value) // the names are valid
		}
	}
}

// apiserver runs the command, and returns its exit code.
func apiserver() int {
	cmd, err := envtest.APIServerCommand()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		return 1
	}
	return cli.Run(cmd)
}
