// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func TestFieldLabels(t *testing.T) {
	for _, c := range []struct {
		gvk         schema.GroupVersionKind
		label, want string // want is "" for a label that is refused
	}{
		{core.Core("Pod"), "spec.nodeName", "spec.nodeName"},
		{core.Core("Pod"), "spec.host", "spec.nodeName"},
		{core.Core("Pod"), "metadata.namespace", "metadata.namespace"},
		{core.Core("Pod"), "spec.containers", ""},
		{core.Core("ConfigMap"), "metadata.name", "metadata.name"},
		{core.Core("ConfigMap"), "data", ""},
		{core.Core("Event"), "involvedObject.uid", "involvedObject.uid"},
		{core.Core("Event"), "regarding.uid", ""},
		{schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, "regarding.uid", "involvedObject.uid"},
		{schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, "source", ""},
	} {
		got, _, err := Scheme().ConvertFieldLabel(c.gvk, c.label, "v")
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s %s: %q, %v, want %q", c.gvk.Kind, c.label, got, err, c.want)
		}
	}
}

// Each label that a kind accepts must have a value, or selectors on it would match nothing without a word.
func TestAcceptedFieldsHaveValues(t *testing.T) {
	noValue := map[string]bool{"status.podIPs": true} // accepted by kube-apiserver, which gives it no value either
	for _, k := range kinds() {
		_, set, err := k.Attributes(kind.NewFunc(Scheme(), k.GVK)())
		if err != nil {
			t.Fatal(err)
		}
		for label := range set {
			if _, _, err := Scheme().ConvertFieldLabel(k.GVK, label, ""); err != nil {
				t.Errorf("%s: %s has a value but is refused: %v", k.GVK.Kind, label, err)
			}
		}
		for _, label := range k.Fields.Known {
			if _, ok := set[label]; !ok && !noValue[label] && !(k.Cluster && label == "metadata.namespace") {
				t.Errorf("%s: %s is accepted but has no value", k.GVK.Kind, label)
			}
		}
	}
}

func TestPodTrigger(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	k := kindOf(t, pod)
	if got := k.Hooks.Triggers["spec.nodeName"](pod); got != "n" {
		t.Errorf("the trigger says %q", got)
	}
	index := (*k.Indexers())["f:spec.nodeName"]
	if got, err := index(pod); err != nil || len(got) != 1 || got[0] != "n" {
		t.Errorf("the index says %v, %v", got, err)
	}
	if _, err := index("no object"); err == nil {
		t.Error("the index takes anything")
	}
}
