// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command etcd is etcd's own main function, for suites that start this binary, such as those of controller-runtime's envtest.
// A test's etcd has one member, and need not wait for others: unless the variables ETCD_HEARTBEAT_INTERVAL and
// ETCD_ELECTION_TIMEOUT or the flags say otherwise, elections are quick.
//
// It links nothing of an API server, since it must be ready before one can start.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	preset()
	etcdmain.Main(os.Args)
}

// presets are settings of etcd that a test would choose. Flags come before them, and so does the user's environment. The
// first two are those of the etcd in a test's process.
var presets = map[string]string{
	"ETCD_HEARTBEAT_INTERVAL":             "10", // milliseconds
	"ETCD_ELECTION_TIMEOUT":               "50", // milliseconds; five heartbeats are the least that etcd takes
	"ETCD_WATCH_PROGRESS_NOTIFY_INTERVAL": "5s",
}

// preset sets what the environment does not.
func preset() {
	for name, value := range presets {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value) // the names are valid
		}
	}
}
