// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// paired is one of two ConfigMaps that have annotations in common with each other alone, so that
// the dictionary takes them in.
func paired(n, version int) *corev1.ConfigMap {
	cm := configMap(fmt.Sprint("ns/", n), "")
	cm.ResourceVersion = fmt.Sprint(version*10_000 + n)
	cm.Annotations = map[string]string{}
	for i := range 4 {
		cm.Annotations[fmt.Sprint("annotation", i)] = fmt.Sprintf("%d of pair %d at version %d", i, n/2, version)
	}
	return cm
}

// TestADictionaryIsRenewedThoughListsHaveFailed lets some streaming lists fail at their end, and
// then replaces all objects until most of the dictionary is dead.
func TestADictionaryIsRenewedThoughListsHaveFailed(t *testing.T) {
	const objects, mostRounds = 3000, 5
	for _, failed := range []int{0, 20} {
		t.Run(fmt.Sprint(failed, " failed"), func(t *testing.T) {
			g := NewWithT(t)
			i, err := New(noSource, Options{Example: &corev1.ConfigMap{}})
			g.Expect(err).NotTo(HaveOccurred())
			list := func(version int) (kept []any) {
				collect := i.store.Transformer()
				for n := range objects {
					o, err := collect(paired(n, version))
					g.Expect(err).NotTo(HaveOccurred())
					kept = append(kept, o)
				}
				return kept
			}
			for range failed {
				list(1) // and the Reflector begins anew
			}
			g.Expect(i.store.Replace(list(1), "20000")).To(Succeed())
			g.Expect(i.store.Update(configMap("ns/fixed", ""))).To(Succeed())
			before, ok := i.engine.Get("ns\x00fixed")
			g.Expect(ok).To(BeTrue())
			renewed := func() bool {
				now, _ := i.engine.Get("ns\x00fixed")
				return now.Value != before.Value // moved to another dictionary
			}
			round := 1
			for ; !renewed() && round <= mostRounds; round++ {
				for n := range objects {
					g.Expect(i.store.Update(paired(n, round+1))).To(Succeed())
				}
			}
			g.Expect(renewed()).To(BeTrue(), "after %d rounds", mostRounds)
			g.Expect(round).To(BeNumerically(">", 1), "there was much that is dead")
		})
	}
}
