// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ownersOf(keys int, names ...string) map[string]string {
	owners := map[string]string{}
	for i := range keys {
		key := fmt.Sprintf("namespace-%d", i)
		var best *member
		for _, name := range names {
			m := &member{name: name, hash: hashOf(name)}
			if best == nil || beats(m, best, hashOf(key)) {
				best = m
			}
		}
		owners[key] = best.name
	}
	return owners
}

// TestKeysAreSpread: of 2,000 namespaces, each of five members has a fifth, but for a fifth of that.
func TestKeysAreSpread(t *testing.T) {
	for _, names := range [][]string{
		{"shop-0", "shop-1", "shop-2", "shop-3", "shop-4"},
		{"shop-7c9d8f6b5-abcde", "shop-7c9d8f6b5-abcdf", "shop-7c9d8f6b5-x2v4z", "shop-7c9d8f6b5-zzzzz", "shop-7c9d8f6b5-00000"},
		{"a", "b", "c", "d", "e"},
	} {
		counts := map[string]int{}
		for _, owner := range ownersOf(2000, names...) {
			counts[owner]++
		}
		for _, name := range names {
			if n := counts[name]; n < 320 || n > 480 {
				t.Errorf("%s has %d of 2,000 namespaces: %v", name, n, counts)
			}
		}
	}
}

// TestOnlyKeysOfTheChangedMemberMove: a member that leaves gives its keys to the others, and one that joins takes keys only for itself.
func TestOnlyKeysOfTheChangedMemberMove(t *testing.T) {
	five, four := ownersOf(2000, "m0", "m1", "m2", "m3", "m4"), ownersOf(2000, "m0", "m1", "m2", "m3")
	moved := 0
	for key, owner := range five {
		if owner == "m4" {
			moved++
		} else if four[key] != owner {
			t.Fatalf("%s is of %s with five members, and of %s with four", key, owner, four[key])
		}
	}
	if moved < 320 || moved > 480 {
		t.Errorf("%d of 2,000 keys move, want about 400", moved)
	}
}

// TestHashesStay: replicas of different builds of a program agree.
func TestHashesStay(t *testing.T) {
	for text, want := range map[string]uint64{"": 0xf52a15e9a9b5e89b, "default": 0xf109ada1b3dd278e} {
		if got := hashOf(text); got != want {
			t.Errorf("the hash of %q is %#x, want %#x", text, got, want)
		}
	}
}

// TestExactlyOneBeatsAll also if members have one name.
func TestExactlyOneBeatsAll(t *testing.T) {
	lease := func(name, id string) *member {
		return newMember(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &id}}, now())
	}
	members := []*member{lease("a", "a_1"), lease("a", "a_2"), lease("b", "b_1"), lease("b", "b_2")}
	for key := range uint64(1000) {
		winners := 0
		for _, m := range members {
			beaten := 0
			for _, other := range members {
				if m != other && beats(m, other, mix(key)) {
					beaten++
				}
			}
			if beaten == len(members)-1 {
				winners++
			}
		}
		if winners != 1 {
			t.Fatalf("%d members beat all others for key %d", winners, key)
		}
	}
}
