// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/variable"
)

// paired is one of two ConfigMaps that have annotations in common with each other alone, so that
// the dictionary takes them in.
func paired(n, version, revision int) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: fmt.Sprint("map", n), ResourceVersion: fmt.Sprint(revision), Annotations: map[string]string{},
	}}
	for i := range 16 {
		cm.Annotations[fmt.Sprint("annotation", i)] = strings.Repeat(fmt.Sprintf("%d of pair %d at version %d; ", i, n/2, version), 16)
	}
	return cm
}

// churned returns a Cacher that keeps ConfigMaps flat, after so many versions of each, with the
// memory that it takes. Its events take next to nothing.
func churned(t *testing.T, objects, first, last int) (c *Cacher, bytes int) {
	t.Helper()
	before := heap()
	c = idle(t, func(config *Config) {
		config.NewFunc = func() runtime.Object { return &corev1.ConfigMap{} }
		config.Decoded, config.HistoryEvents = ptr.To(false), 1
	})
	revision := 100
	for version := first; version <= last; version++ {
		for n := range objects {
			revision++
			if err := c.reflectorStore.Update(paired(n, version, revision)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c, heap() - before
}

// TestADictionaryIsRenewed writes many versions of objects whose strings are never the same, until
// a dictionary that is not renewed is full. A Cacher takes no more than that of a few versions,
// because the dictionary is renewed when about half of it is dead.
func TestADictionaryIsRenewed(t *testing.T) {
	variable.SkipUnderDetector(t, "one goroutine writes")
	const objects, versions = 1000, 24
	g := NewWithT(t)
	fresh, little := churned(t, objects, versions, versions)
	old, much := churned(t, objects, 1, versions)
	t.Logf("%.1f MiB after one version, %.1f MiB after %d", float64(little)/(1<<20), float64(much)/(1<<20), versions)
	g.Expect(much).To(BeNumerically("<", 4*little))
	for _, n := range []int{0, 1, objects - 1} {
		expected := paired(n, versions, 0).Annotations
		g.Expect(old.suggestion("/pods/a/" + fmt.Sprint("map", n)).(*corev1.ConfigMap).Annotations).To(Equal(expected))
	}
	goruntime.KeepAlive(fresh)
}
