// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package components_test

import (
	"context"
	"fmt"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/components"
)

// The real programs, with the controllers of Deployments.
func ExampleControllerManager() {
	env := envtest.New(envtest.Options{
		Controllers: []envtest.Controller{
			components.ControllerManager(components.Options{Controllers: []string{"deployment-controller", "replicaset-controller"}}),
			components.Scheduler(components.Options{}),
		},
	})
	if err := env.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer env.Stop()
}
