// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestKeepsStore says which changes of a definition replace its store, as the CRD server does.
func TestKeepsStore(t *testing.T) {
	change := func(f func(*apiextensionsv1.CustomResourceDefinition)) crdChange {
		before := &apiextensionsv1.CustomResourceDefinition{}
		before.UID, before.Spec.Group, before.Status.AcceptedNames.Kind = "1", "example.com", "Widget"
		after := before.DeepCopy()
		f(after)
		return crdChange{before: before, after: after}
	}
	for name, c := range map[string]struct {
		change crdChange
		want   bool
	}{
		"metadata": {change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Annotations = map[string]string{"a": "b"} }), true},
		"status": {change(func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Terminating}}
		}), true},
		"another one": {change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.UID = types.UID("2") }), false},
		"spec":        {change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.PreserveUnknownFields = true }), false},
		"names":       {change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.AcceptedNames.Kind = "Gadget" }), false},
	} {
		if got := c.change.keepsStore(); got != c.want {
			t.Errorf("after a change of %s the store stays: %v", name, got)
		}
	}
}
