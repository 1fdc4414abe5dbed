// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes/scheme"
)

// groups knows every API group of Kubernetes, for --runtime-config. It implements serveroptions.GroupRegistry.
type groups struct{}

// IsGroupRegistered implements serveroptions.GroupRegistry.
func (groups) IsGroupRegistered(group string) bool {
	switch group {
	case "apiextensions.k8s.io", "apiregistration.k8s.io":
		return true
	}
	return scheme.Scheme.IsGroupRegistered(group)
}

// gateNotices tells of feature gates that were switched and guard nothing here.
func (f *Flags) gateNotices() []string {
	var notices []string
	flag := f.sets.FlagSet("generic").Lookup("feature-gates")
	for _, name := range switched(flag) {
		if theirs[name] {
			notices = append(notices, fmt.Sprintf("--feature-gates: %s has no effect: it guards code that is not in this server", name))
		}
	}
	return notices
}

// switched are the names of the gates that the flag has, sorted.
func switched(flag *pflag.Flag) []string {
	var names []string
	for _, match := range gateName.FindAllStringSubmatch(flag.Value.String(), -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
