// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/internal/object"
)

func TestKeysAreInTheOrderOfNamespaces(t *testing.T) {
	g := NewWithT(t)
	keys := []string{object.Key("", "a"), object.Key("a", "z"), object.Key("a-b", "a"), object.Key("a0", "a")}
	g.Expect(slices.IsSorted(keys)).To(BeTrue())
	g.Expect(object.StoreKey(keys[1])).To(Equal("a/z"))
	g.Expect(object.StoreKey(keys[0])).To(Equal("a"))
	g.Expect(keys[1]).To(HavePrefix(object.KeyPrefix("a")))
	g.Expect(keys[2]).NotTo(HavePrefix(object.KeyPrefix("a")))
	g.Expect(keys[0]).To(HavePrefix(object.KeyPrefix("")))
}
