// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest"
)

// all are the controllers, by the names that kube-controller-manager has for them.
var all = map[string]func(ctx context.Context, config *rest.Config) error{
	collectorName:      runCollector,
	namespaceName:      runNamespaceController,
	rootCAName:         runRootCAPublisher,
	serviceAccountName: runServiceAccountController,
}

// Names returns the names that Named knows, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Named returns controllers for envtest.Options.Controllers. The selection is that of kube-controller-manager's flag
// --controllers: a name stands for a controller, "*" for all, and a name after a minus for one left out. If a name is not
// known, Start of the environment fails with an error that lists the known names.
func Named(selection ...string) []envtest.Controller {
	if err := check(selection); err != nil {
		return []envtest.Controller{{Err: err}}
	}
	var selected []envtest.Controller
	for _, name := range Names() {
		if isSelected(name, selection) {
			selected = append(selected, envtest.Controller{Name: name, Run: all[name]})
		}
	}
	return selected
}

// check returns an error if a name is not known.
func check(selection []string) error {
	var unknown []string
	for _, entry := range selection {
		if name := strings.TrimPrefix(entry, "-"); entry != "*" && all[name] == nil {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("there is no controller %s here: use *, or names of %s, with a minus before those to leave out",
		strings.Join(unknown, ", "), strings.Join(Names(), ", "))
}

// isSelected reports whether a selection has a controller. As in kube-controller-manager, the first entry with its name
// decides, and * comes last.
func isSelected(name string, selection []string) bool {
	for _, entry := range selection {
		switch entry {
		case name:
			return true
		case "-" + name:
			return false
		}
	}
	return slices.Contains(selection, "*")
}
