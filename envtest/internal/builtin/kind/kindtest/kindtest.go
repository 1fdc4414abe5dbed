// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtest

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// StrategyOf returns the strategy of the row for an object's type.
func StrategyOf(t *testing.T, rows []*kind.Kind, obj runtime.Object) kind.Strategy {
	t.Helper()
	gvks, _, err := clientscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range rows {
		if k.GVK == gvks[0] {
			return kind.NewStrategy(k, clientscheme.Scheme)
		}
	}
	t.Fatalf("no row for %T", obj)
	return kind.Strategy{}
}

// ExpectFindings compares the findings with the expected ones, as a client reads them.
func ExpectFindings(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
