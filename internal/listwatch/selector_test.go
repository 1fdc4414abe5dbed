// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

func TestExcludes(t *testing.T) {
	key := types.NamespacedName{Namespace: "default", Name: "one"}
	for selector, excluded := range map[string]bool{
		"":                         false,
		"metadata.name=one":        false,
		"metadata.name==two":       true,
		"metadata.name!=one":       true,
		"metadata.name!=two":       false,
		"metadata.namespace=other": true,
		"metadata.namespace!=other,metadata.name=one": false,
		"metadata.namespace!=default":                 true,
		"spec.nodeName=a":                             false, // only the object tells
		"spec.nodeName=a,metadata.name=two":           true,
	} {
		if got := (Selector{Field: fields.ParseSelectorOrDie(selector)}).Excludes(key); got != excluded {
			t.Errorf("%q: got %v, want %v", selector, got, excluded)
		}
	}
	if (Selector{}).Excludes(key) {
		t.Error("no selector excludes nothing")
	}
}
