// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// byValue indexes ConfigMaps by their value; those without one are in no entry.
func byValue(obj any) ([]string, error) {
	if value := valueOf(obj); value != "" {
		return []string{value}, nil
	}
	return nil, nil
}

// byDataKeys indexes ConfigMaps by the keys of their data.
func byDataKeys(obj any) ([]string, error) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return nil, errors.New("no ConfigMap")
	}
	var keys []string
	for key := range cm.Data {
		keys = append(keys, key)
	}
	return keys, nil
}

func TestInformerStoreReads(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		store := r.informer.GetStore()
		r.Expect(store.List()).To(BeEmpty())
		r.server.put(configMap("ns/a", "1"), configMap("other/a", "2"))
		r.start()
		r.Expect(describeAll(store.List())).To(Equal([]string{"ns/a=1", "other/a=2"}))
		r.Expect(store.ListKeys()).To(ConsistOf("ns/a", "other/a"))
		want := configMap("other/a", "2")
		want.ResourceVersion = r.server.current()

		for _, asked := range []any{
			configMap("other/a", "whatever"),
			toolscache.ExplicitKey("other/a"),
			toolscache.DeletedFinalStateUnknown{Key: "other/a"},
		} {
			got, exists, err := store.Get(asked)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(exists).To(BeTrue())
			r.Expect(got).To(Equal(want))
		}
		got, exists, err := store.GetByKey("other/a")
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(exists).To(BeTrue())
		r.Expect(got).To(Equal(want))
	})
}

func TestInformerStoreMissesWhatIsNotThere(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"))
		r.start()
		store := r.informer.GetStore()
		for _, key := range []string{"ns/b", "a", "", "ns/", "ns/a/b"} {
			got, exists, err := store.GetByKey(key)
			r.Expect(err).NotTo(HaveOccurred(), key)
			r.Expect(exists).To(BeFalse(), key)
			r.Expect(got).To(BeNil(), key)
		}
		got, exists, err := store.Get(configMap("ns/b", "1"))
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(exists).To(BeFalse())
		r.Expect(got).To(BeNil())

		_, _, err = store.Get("no object")
		r.Expect(errors.As(err, &toolscache.KeyError{})).To(BeTrue())
		r.Expect(store.Add("no object")).NotTo(Succeed())
		r.Expect(store.Update("no object")).NotTo(Succeed())
		r.Expect(store.Delete("no object")).NotTo(Succeed())
		r.Expect(store.Replace([]any{"no object"}, "100")).NotTo(Succeed())
		r.Expect(store.ListKeys()).To(Equal([]string{"ns/a"}))
	})
}

func TestInformerStoreOfClusterScopedObjects(t *testing.T) {
	eachInformer(t, setting{example: &corev1.Node{}}, func(r *rig) {
		r.server.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		r.start()
		store := r.informer.GetStore()
		r.Expect(store.ListKeys()).To(Equal([]string{"a"}))
		for key, want := range map[string]bool{"a": true, "/a": false, "ns/a": false, "b": false} {
			_, exists, err := store.GetByKey(key)
			r.Expect(err).NotTo(HaveOccurred(), key)
			r.Expect(exists).To(Equal(want), key)
		}
	})
}

func TestInformerIndexes(t *testing.T) {
	eachInformer(t, setting{indexers: toolscache.Indexers{"value": byValue, "data": byDataKeys}}, func(r *rig) {
		several := configMap("ns/b", "2")
		several.Data["colour"], several.Data["size"] = "red", "large"
		none := configMap("ns/c", "")
		none.Data = nil
		r.server.put(configMap("ns/a", "1"), several, none, configMap("other/d", "1"))
		r.start()
		indexer := r.informer.GetIndexer()
		r.Expect(describedBy(indexer.ByIndex("value", "1"))).To(Equal([]string{"ns/a=1", "other/d=1"}))
		r.Expect(indexer.ByIndex("value", "3")).To(BeEmpty())
		r.Expect(indexer.ByIndex("value", "")).To(BeEmpty())
		r.Expect(describedBy(indexer.ByIndex("data", "colour"))).To(Equal([]string{"ns/b=2"}))
		r.Expect(describedBy(indexer.ByIndex("data", "value"))).To(Equal([]string{"ns/a=1", "ns/b=2", "other/d=1"}))
		r.Expect(indexer.IndexKeys("value", "1")).To(ConsistOf("ns/a", "other/d"))
		r.Expect(indexer.IndexKeys("value", "3")).To(BeEmpty())

		r.Expect(describedBy(indexer.Index("value", configMap("not/stored", "1")))).To(Equal([]string{"ns/a=1", "other/d=1"}))
		r.Expect(describedBy(indexer.Index("data", several))).To(Equal([]string{"ns/a=1", "ns/b=2", "other/d=1"}), "each once")
		r.Expect(indexer.Index("data", none)).To(BeEmpty())
		_, err := indexer.Index("data", &corev1.Node{})
		r.Expect(err).To(MatchError("no ConfigMap"))

		r.Expect(indexer.ListIndexFuncValues("value")).To(ConsistOf("1", "2"))
		r.Expect(indexer.ListIndexFuncValues("data")).To(ConsistOf("value", "colour", "size"))
		r.Expect(indexer.GetIndexers()).To(And(HaveLen(2), HaveKey("value"), HaveKey("data")))
	})
}

func TestInformerIndexesNamespaces(t *testing.T) {
	eachInformer(t, setting{namespaces: true}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"), configMap("ns2/a", "1"))
		r.start()
		indexer := r.informer.GetIndexer()
		r.Expect(indexer.IndexKeys(toolscache.NamespaceIndex, "ns")).To(ConsistOf("ns/a", "ns/b"))
		r.Expect(describedBy(indexer.ByIndex(toolscache.NamespaceIndex, "ns2"))).To(Equal([]string{"ns2/a=1"}))
		r.Expect(indexer.ByIndex(toolscache.NamespaceIndex, "n")).To(BeEmpty())
		r.Expect(indexer.ByIndex(toolscache.NamespaceIndex, "")).To(BeEmpty())
		r.Expect(describedBy(indexer.Index(toolscache.NamespaceIndex, configMap("ns/absent", "1")))).To(Equal([]string{"ns/a=1", "ns/b=1"}))
		r.Expect(indexer.ListIndexFuncValues(toolscache.NamespaceIndex)).To(ConsistOf("ns", "ns2"))
	})
}

// An index that a user adds with client-go's function for namespaces is one like any other.
func TestInformerIndexesNamespacesUnderAnotherName(t *testing.T) {
	eachInformer(t, setting{namespaces: true}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(r.informer.AddIndexers(toolscache.Indexers{"mine": toolscache.MetaNamespaceIndexFunc})).To(Succeed())
		r.Expect(r.informer.AddIndexers(toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})).NotTo(Succeed())
		r.server.put(configMap("ns/b", "1"), configMap("ns2/a", "1"))
		r.settle()
		indexer := r.informer.GetIndexer()
		for _, name := range []string{"mine", toolscache.NamespaceIndex} {
			r.Expect(indexer.IndexKeys(name, "ns")).To(ConsistOf("ns/a", "ns/b"), name)
			r.Expect(describedBy(indexer.ByIndex(name, "ns2"))).To(Equal([]string{"ns2/a=1"}), name)
			r.Expect(indexer.ListIndexFuncValues(name)).To(ConsistOf("ns", "ns2"), name)
			r.Expect(describedBy(indexer.Index(name, configMap("ns/absent", "1")))).To(ConsistOf("ns/a=1", "ns/b=1"), name)
		}
	})
}

// A name is all that an index has: this one says something else than its name.
func TestInformerUsesTheIndexFunctionWhateverItsName(t *testing.T) {
	eachInformer(t, setting{indexers: toolscache.Indexers{toolscache.NamespaceIndex: byValue}}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(r.informer.GetIndexer().IndexKeys(toolscache.NamespaceIndex, "1")).To(Equal([]string{"ns/a"}))
	})
}

func TestInformerIndexesFollowTheObjects(t *testing.T) {
	eachInformer(t, setting{indexers: toolscache.Indexers{"value": byValue}}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		indexer := r.informer.GetIndexer()
		r.server.put(configMap("ns/a", "2"))
		r.server.remove("ns/b")
		r.settle()
		r.Expect(indexer.IndexKeys("value", "1")).To(BeEmpty())
		r.Expect(describedBy(indexer.ByIndex("value", "2"))).To(Equal([]string{"ns/a=2"}))
		r.Expect(indexer.ListIndexFuncValues("value")).To(Equal([]string{"2"}))

		r.relist(func() {
			r.server.remove("ns/a")
			r.server.put(configMap("ns/c", "3"))
		})
		r.Expect(indexer.ListIndexFuncValues("value")).To(Equal([]string{"3"}))
		r.Expect(indexer.IndexKeys("value", "3")).To(Equal([]string{"ns/c"}))
	})
}

func TestInformerDoesNotKnowIndexesThatNobodyAdded(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.start()
		indexer := r.informer.GetIndexer()
		for _, name := range []string{"unknown", toolscache.NamespaceIndex} {
			_, err := indexer.ByIndex(name, "1")
			r.Expect(err).To(HaveOccurred(), name)
			_, err = indexer.IndexKeys(name, "1")
			r.Expect(err).To(HaveOccurred(), name)
			_, err = indexer.Index(name, configMap("ns/a", "1"))
			r.Expect(err).To(HaveOccurred(), name)
			r.Expect(indexer.ListIndexFuncValues(name)).To(BeEmpty(), name)
		}
		r.Expect(indexer.GetIndexers()).To(BeEmpty())
	})
}

func TestInformerTakesIndexersBeforeAndAfterTheStart(t *testing.T) {
	eachInformer(t, setting{namespaces: true}, func(r *rig) {
		r.Expect(r.informer.AddIndexers(toolscache.Indexers{"early": byValue})).To(Succeed())
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(r.informer.AddIndexers(toolscache.Indexers{"late": byValue})).To(Succeed())
		r.Expect(r.informer.GetIndexer().AddIndexers(toolscache.Indexers{"latest": byValue})).To(Succeed())
		r.server.put(configMap("ns/b", "1"))
		r.settle()
		indexer := r.informer.GetIndexer()
		for _, name := range []string{"early", "late", "latest"} {
			r.Expect(indexer.IndexKeys(name, "1")).To(ConsistOf("ns/a", "ns/b"), name)
		}
		r.Expect(indexer.IndexKeys(toolscache.NamespaceIndex, "ns")).To(ConsistOf("ns/a", "ns/b"))
		r.Expect(indexer.GetIndexers()).To(HaveLen(4))
	})
}

func TestInformerIndexesWhatComesInWhileAnIndexIsAdded(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		added := make(chan error, 1)
		var once sync.Once
		r.Expect(r.informer.AddIndexers(toolscache.Indexers{"early": func(obj any) ([]string, error) {
			if keyOf(obj) == "ns/b" {
				once.Do(func() {
					go func() { added <- r.informer.AddIndexers(toolscache.Indexers{"late": byValue}) }()
					for range 1000 { // time for it, as it may or may not have to wait
						runtime.Gosched()
					}
				})
			}
			return byValue(obj)
		}})).To(Succeed())
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/b", "1"))
		r.Expect(<-added).To(Succeed())
		r.settle()
		for _, name := range []string{"early", "late"} {
			r.Expect(r.informer.GetIndexer().IndexKeys(name, "1")).To(ConsistOf("ns/a", "ns/b"), name)
		}
	})
}

func TestInformerRefusesASecondIndexerOfAName(t *testing.T) {
	for name, running := range map[string]bool{"before the start": false, "after the start": true} {
		t.Run(name, func(t *testing.T) {
			eachInformer(t, setting{indexers: toolscache.Indexers{"value": byValue}}, func(r *rig) {
				if running {
					r.start()
				}
				err := r.informer.AddIndexers(toolscache.Indexers{"value": byDataKeys, "other": byDataKeys})
				r.Expect(err).To(MatchError(ContainSubstring("value")))
				r.Expect(r.informer.GetIndexer().GetIndexers()).To(And(HaveLen(1), HaveKey("value")), "none of them is added")
			})
		})
	}
}

func TestInformerStoreShowsWhatIsWrittenToIt(t *testing.T) {
	for name, running := range map[string]bool{"before the start": false, "after the start": true} {
		t.Run(name, func(t *testing.T) {
			eachInformer(t, setting{notOfViews: true, indexers: toolscache.Indexers{"value": byValue}}, func(r *rig) {
				if running {
					r.start()
				}
				indexer := r.informer.GetIndexer()
				r.Expect(r.informer.GetStore().Add(configMap("ns/a", "1"))).To(Succeed())
				r.Expect(indexer.Add(configMap("ns/b", "1"))).To(Succeed())
				r.Expect(describeAll(indexer.List())).To(Equal([]string{"ns/a=1", "ns/b=1"}))
				r.Expect(indexer.IndexKeys("value", "1")).To(ConsistOf("ns/a", "ns/b"))

				r.Expect(indexer.Update(configMap("ns/a", "2"))).To(Succeed())
				r.Expect(indexer.Delete(configMap("ns/b", "1"))).To(Succeed())
				r.Expect(indexer.Delete(configMap("ns/absent", "1"))).To(Succeed())
				r.Expect(describeAll(indexer.List())).To(Equal([]string{"ns/a=2"}))
				r.Expect(indexer.ListIndexFuncValues("value")).To(Equal([]string{"2"}))
				r.Expect(indexer.Delete(toolscache.DeletedFinalStateUnknown{Key: "ns/a"})).To(Succeed())
				r.Expect(indexer.ListKeys()).To(BeEmpty())

				r.Expect(indexer.Replace([]any{configMap("ns/c", "3")}, "100")).To(Succeed())
				r.Expect(describeAll(indexer.List())).To(Equal([]string{"ns/c=3"}))
				r.Expect(indexer.LastStoreSyncResourceVersion()).To(Equal("100"))
				r.Expect(indexer.Replace([]any{configMap("ns/d", "1"), configMap("ns/d", "2")}, "101")).To(Succeed())
				r.Expect(describeAll(indexer.List())).To(Equal([]string{"ns/d=2"}), "the last of a key counts")
				r.Expect(indexer.Resync()).To(Succeed())
			})
		})
	}
}

// Handlers hear of what the server sends, and of nothing else.
func TestInformerHandlersHearNothingOfWritesToTheStore(t *testing.T) {
	eachInformer(t, setting{notOfViews: true}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		h.take()
		written := configMap("ns/b", "written")
		written.ResourceVersion = r.server.current()
		r.Expect(r.informer.GetStore().Add(written)).To(Succeed())
		r.settle()
		r.Expect(h.take()).To(BeEmpty())
		r.server.put(configMap("ns/b", "1"))
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"update ns/b=written>1"}))
	})
}

func TestInformerIsNotSyncedByAReplaceOfItsStore(t *testing.T) {
	eachInformer(t, setting{notOfViews: true}, func(r *rig) {
		release := r.server.hold()
		h := &recording{}
		registration := r.handle(h)
		r.start()
		store := r.informer.GetStore()
		r.Expect(store.Add(configMap("ns/old", "1"))).To(Succeed())
		r.Expect(store.Replace([]any{configMap("ns/a", "written"), configMap("ns/b", "written")}, "0")).To(Succeed())
		r.settle()
		r.Expect(describeAll(store.List())).To(Equal([]string{"ns/a=written", "ns/b=written"}))
		r.Expect(h.take()).To(BeEmpty())
		r.Expect(registration.HasSynced()).To(BeFalse())
		r.Expect(r.informer.HasSynced()).To(BeFalse())

		r.server.put(configMap("ns/a", "1"))
		release()
		r.settle()
		r.Expect(h.take()).To(ConsistOf("update ns/a=written>1", "missed delete ns/b=written"))
		r.Expect(describeAll(store.List())).To(Equal([]string{"ns/a=1"}))
		r.Expect(registration.HasSynced()).To(BeTrue())
		r.Expect(store.Replace([]any{configMap("ns/b", "2")}, r.server.current())).To(Succeed())
		r.settle()
		r.Expect(describeAll(store.List())).To(Equal([]string{"ns/b=2"}))
		r.Expect(h.take()).To(BeEmpty())
	})
}

func TestInformerSyncOverridesWhatWasWrittenToItsStore(t *testing.T) {
	eachInformer(t, setting{notOfViews: true}, func(r *rig) {
		r.Expect(r.informer.GetStore().Add(configMap("ns/stale", "1"))).To(Succeed())
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(r.informer.GetStore().ListKeys()).To(Equal([]string{"ns/a"}))
		r.Expect(r.informer.LastSyncResourceVersion()).To(Equal(r.server.current()))
	})
}

func describedBy(objects []any, err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	return describeAll(objects)
}
