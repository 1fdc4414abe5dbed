// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/internal/flat"
)

// TestKeysAreInOrder: whatever the order in which Go walks a map, the keys of its flat form are
// sorted, so that equal maps have equal bytes.
func TestKeysAreInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 5))
	c := podCodec(t)
	for _, size := range []int{1, 2, 12, 13, 14, 100, 1000} {
		pod := &corev1.Pod{}
		pod.Labels = map[string]string{}
		for len(pod.Labels) < size {
			key := fmt.Sprint(random.IntN(1 << 20))
			pod.Labels[key] = key + "!"
		}
		o := mustEncode(t, c, pod, nil)
		var keys []string
		for k, v := range o.Labels() {
			if v != k+"!" {
				t.Errorf("of %d labels, %s has the value %s", size, k, v)
			}
			keys = append(keys, k)
		}
		if want := slices.Sorted(maps.Keys(pod.Labels)); !slices.Equal(keys, want) {
			t.Errorf("%d labels are in the order %v, want %v", size, keys, want)
		}
		if again := mustEncode(t, c, pod, nil); !bytes.Equal(flat.Bytes(o), flat.Bytes(again)) {
			t.Errorf("%d labels have other bytes when they are encoded again", size)
		}
	}
}
