// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/sharding"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// shardBounds cut the hashes of UIDs into three.
var shardBounds = []string{"0x0000000000000000", "0x5000000000000000", "0xa000000000000000", "0x10000000000000000"}

// shards returns the selection of each shard.
func shards(t *testing.T) (selections []storage.SelectionPredicate) {
	t.Helper()
	for i := range len(shardBounds) - 1 {
		expression := fmt.Sprintf("shardRange(object.metadata.uid, '%s', '%s')", shardBounds[i], shardBounds[i+1])
		selector, err := sharding.Parse(expression)
		if err != nil {
			t.Fatal(err)
		}
		p := storage.Everything
		p.GetAttrs, p.ShardSelector = podAttributes, selector
		selections = append(selections, p)
	}
	return selections
}

// onShards runs a test with sharding on, and objects in both forms.
func onShards(t *testing.T, test func(t *testing.T, s *memoryStorage, c *cacher.Cacher)) {
	gate(features.ShardedListAndWatch, true)(t)
	for name, o := range map[string]cacher.Options{"decoded": {}, "flat": {Decoded: ptr.To(false)}} {
		t.Run(name, func(t *testing.T) { bubble(t, test, withOptions(o)) })
	}
}

func withUID(n int) *example.Pod {
	pod := numbered(fmt.Sprintf("pod-%02d", n), n)
	pod.UID = uid(n)
	return pod
}

// uid returns a UID; those of numbers in a row are far from one another.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("%016x-uid", uint64(n+1)*0x9e3779b97f4a7c15)) }

// TestShardedLists shows that every object is in the list of exactly one shard, in pages or not.
func TestShardedLists(t *testing.T) {
	onShards(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		const there = 60
		for n := range there {
			s.put(withUID(n))
		}
		synctest.Wait()
		for _, limit := range []int64{0, 7} {
			var names []string
			for _, p := range shards(t) {
				p.Limit = limit
				got := listed(t, c, storage.ListOptions{Predicate: p, Recursive: true})
				g.Expect(len(got)).To(And(BeNumerically(">", 0), BeNumerically("<", there)))
				names = append(names, got...)
			}
			slices.Sort(names)
			g.Expect(slices.Compact(slices.Clone(names))).To(Equal(names), "no object is in two shards")
			g.Expect(names).To(HaveLen(there))
		}
	})
}

// listed returns the names in a list, which may be in pages.
func listed(t *testing.T, c storage.Interface, opts storage.ListOptions) (names []string) {
	t.Helper()
	for {
		page := &example.PodList{}
		if err := c.GetList(t.Context(), podPrefix, opts, page); err != nil {
			t.Fatal(err)
		}
		if info := page.ShardInfo; info == nil || info.Selector != opts.Predicate.ShardSelector.String() {
			t.Errorf("the list says that it is of the shard %v", info)
		}
		if page.RemainingItemCount != nil {
			t.Error("the list says how many objects remain, which it cannot know")
		}
		for _, pod := range page.Items {
			names = append(names, pod.Name)
		}
		if opts.Predicate.Continue = page.Continue; page.Continue == "" {
			return names
		}
	}
}

// TestShardedWatches shows that every shard sees its events alone, and an object with a new UID in
// both of them: it was deleted and made again unnoticed.
func TestShardedWatches(t *testing.T) {
	onShards(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		for n := range 10 {
			s.put(withUID(n))
		}
		synctest.Wait()
		var observers []*observer
		var watches []watch.Interface
		for _, version := range []string{"0", "5"} { // from the state and from the history
			for _, p := range shards(t) {
				o := &observer{key: podPrefix, opts: storage.ListOptions{ResourceVersion: version, Predicate: p}, called: s.now()}
				observers = append(observers, o)
				watches = append(watches, watchAll(t, c, o.opts))
			}
		}
		synctest.Wait()
		for n := range 100 {
			pod := withUID(n % 10)
			pod.UID = uid(n % 7)
			s.put(pod)
			if n%11 == 0 {
				s.remove(podKey("default", pod.Name))
			}
		}
		kinds := map[watch.EventType]int{}
		for i, o := range observers {
			var open bool
			o.events, open = available(watches[i])
			g.Expect(open).To(BeTrue())
			g.Expect(o.check(s, true)).To(Succeed())
			for _, event := range o.events {
				kinds[event.Type]++
			}
		}
		g.Expect(kinds[watch.Deleted]).To(BeNumerically(">", 2*10), "there were transitions")
	})
}

// TestShardsWithoutTheFeature shows that without the feature the selector is not looked at, as
// upstream has it.
func TestShardsWithoutTheFeature(t *testing.T) {
	gate(features.ShardedListAndWatch, false)(t)
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		for n := range 10 {
			s.put(withUID(n))
		}
		synctest.Wait()
		list := &example.PodList{}
		if err := c.GetList(t.Context(), podPrefix, storage.ListOptions{Predicate: shards(t)[0], Recursive: true}, list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 10 || list.ShardInfo != nil {
			t.Errorf("the list has %d objects of the shard %v", len(list.Items), list.ShardInfo)
		}
		events, _ := available(watchAll(t, c, storage.ListOptions{ResourceVersion: "0", Predicate: shards(t)[1]}))
		if len(events) != 10 || strings.Contains(fmt.Sprint(events), "Error") {
			t.Errorf("the watch has %d events", len(events))
		}
	})
}
