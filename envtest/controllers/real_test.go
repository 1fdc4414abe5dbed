// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/components"
	"github.com/tarn-dev/tarn/envtest/controllers"
)

// realVariable names a kube-controller-manager, as envtest/cmd/assets -controller-manager builds it. The specs then run on its
// controllers.
const realVariable = "TARN_REAL_CONTROLLER_MANAGER"

func isReal() bool { return os.Getenv(realVariable) != "" }

// chosen returns the controllers with these names: ours, or those of the real kube-controller-manager.
func chosen(names ...string) []envtest.Controller {
	if !isReal() {
		return controllers.Named(names...)
	}
	return []envtest.Controller{components.ControllerManager(components.Options{Path: os.Getenv(realVariable), Controllers: names})}
}

// stillThere is the error for an object that should have gone.
func stillThere(obj client.Object) error {
	return fmt.Errorf("%s %s is still there: deleted at %v, finalizers %q, owners %v",
		obj.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(obj), obj.GetDeletionTimestamp(), obj.GetFinalizers(), obj.GetOwnerReferences())
}
