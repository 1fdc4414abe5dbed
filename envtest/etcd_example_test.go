// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"

	"github.com/tarn-dev/tarn/envtest"
)

// Two servers store in one cluster of etcd.
func ExampleExternalEtcd() {
	cluster := &envtest.ExternalEtcd{
		Servers: []string{"https://127.0.0.1:2379", "https://127.0.0.1:22379", "https://127.0.0.1:32379"},
		CAFile:  "ca.crt", CertFile: "client.crt", KeyFile: "client.key",
	}
	one, two := envtest.New(envtest.Options{Etcd: cluster}), envtest.New(envtest.Options{Etcd: cluster})
	for _, env := range []*envtest.Environment{one, two} {
		if err := env.Start(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
		defer env.Stop()
	}
	// A client of two.Config() sees the writes of a client of one.Config().
}
