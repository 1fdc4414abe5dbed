// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/controllers"
)

func TestNamed(t *testing.T) {
	every := controllers.Names()
	const one = "namespace-controller"
	others := slices.DeleteFunc(slices.Clone(every), func(name string) bool { return name == one })
	for _, c := range []struct {
		selection, want []string
	}{
		{nil, nil},
		{[]string{"*"}, every},
		{[]string{one}, []string{one}},
		{[]string{"*", "-" + one}, others},
		{[]string{"-" + one, "*"}, others},
		{[]string{one, "-" + one}, []string{one}}, // as in kube-controller-manager, the first decides
		{[]string{"-" + one, one}, nil},
	} {
		var names []string
		for _, selected := range controllers.Named(c.selection...) {
			if selected.Err != nil || selected.Run == nil {
				t.Errorf("%q: %s cannot run: %v", c.selection, selected.Name, selected.Err)
			}
			names = append(names, selected.Name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%q selects %q, want %q", c.selection, names, c.want)
		}
	}
}

func TestNamedRefusesWhatItDoesNotKnow(t *testing.T) {
	err := envtest.New(envtest.Options{Controllers: controllers.Named("*", "-ttl-controller", "namespaces")}).Start(t.Context())
	if err == nil {
		t.Fatal("the environment started")
	}
	for _, want := range append([]string{`"ttl-controller"`, `"namespaces"`, "use *"}, controllers.Names()...) {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not say %s", err, want)
		}
	}
}
