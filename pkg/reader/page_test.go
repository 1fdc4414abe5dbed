// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// numbered returns so many Pods in a few namespaces.
func numbered(n int) []client.Object {
	all := make([]client.Object, n)
	for i := range all {
		all[i] = pod(fmt.Sprint("ns", i%3), fmt.Sprintf("pod%04d", i), i+1)
	}
	return all
}

// contents is what a list holds, with the versions of the objects.
func contents(list *corev1.PodList) []string {
	found := []string{}
	for _, p := range list.Items {
		found = append(found, p.Namespace+"/"+p.Name+"@"+p.ResourceVersion)
	}
	return found
}

func TestListLimitAndContinue(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "3", 1), pod("a", "1", 2), pod("a", "2", 3))
		list := &corev1.PodList{}
		f.Expect(f.List(t.Context(), list, client.Limit(2))).To(Succeed())
		f.Expect(names(list)).To(Equal([]string{"a/1", "a/2"}))
		f.Expect(list.RemainingItemCount).To(HaveValue(Equal(int64(1))))
		f.Expect(f.List(t.Context(), list, client.Limit(2), client.Continue(list.Continue))).To(Succeed())
		f.Expect(names(list)).To(Equal([]string{"a/3"}))
		f.Expect(list.Continue).To(BeEmpty())
		f.Expect(list.RemainingItemCount).To(BeNil())
		f.Expect(f.List(t.Context(), list, client.Limit(3))).To(Succeed())
		f.Expect(names(list)).To(HaveLen(3))
		f.Expect(list.Continue).To(BeEmpty())
	})
}

// TestRemainingItemCount is told where an API server tells it: when no selector
// restricts the list.
func TestRemainingItemCount(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, numbered(30)...)
		for _, c := range []struct {
			opt  client.ListOption
			want types.GomegaMatcher
		}{
			{client.InNamespace(""), HaveValue(Equal(int64(26)))},
			{client.InNamespace("ns1"), HaveValue(Equal(int64(6)))},
			{client.MatchingLabels{}, HaveValue(Equal(int64(26)))},
			{client.HasLabels{"name"}, BeNil()},
			{client.MatchingFields{"metadata.namespace": "ns1"}, BeNil()},
		} {
			list := &corev1.PodList{}
			f.Expect(f.List(t.Context(), list, c.opt, client.Limit(4))).To(Succeed())
			f.Expect(list.Items).To(HaveLen(4))
			f.Expect(list.Continue).NotTo(BeEmpty())
			f.Expect(list.RemainingItemCount).To(c.want, "%#v", c.opt)
		}
	})
}

// TestPagesAreOfOneMoment reads random lists page by page, of one and of several
// readers, and writes between the pages. It compares them with what a list in one piece
// said when they began.
func TestPagesAreOfOneMoment(t *testing.T) {
	variable.SkipUnderDetector(t, "one goroutine reads and writes")
	onEveryStore(t, func(t *testing.T, store string) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		g := NewWithT(t)
		const lists = 60
		fixtures := make([]fixture, 3)
		version := 0
		write := func() {
			i := random.IntN(len(fixtures))
			f := fixtures[i]
			version++
			p := pod(fmt.Sprint("ns", i), fmt.Sprint("pod", random.IntN(200)), version)
			p.Labels["app"] = fmt.Sprint("app", random.IntN(6))
			switch random.IntN(40) {
			case 0:
				all := []client.Object{p}
				for n := range 180 {
					all = append(all, pod(p.Namespace, fmt.Sprint("relisted", n), n))
				}
				f.store.replace(all, version)
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
				f.store.remove(p)
			default:
				f.store.put(p)
			}
		}
		for i := range fixtures {
			fixtures[i] = pods(t, store)
		}
		for range 900 {
			write()
		}
		expired := 0
		for range lists {
			of := []*reader.CacheReader{}
			for _, f := range fixtures[:1+random.IntN(len(fixtures))] {
				of = append(of, f.CacheReader)
			}
			o := client.ListOptions{}
			switch random.IntN(4) {
			case 0:
				o.LabelSelector, _ = labels.Parse(fmt.Sprintf("name notin (pod1, pod2, pod%d)", random.IntN(200)))
			case 1: // answered from an index
				o.LabelSelector, _ = labels.Parse(fmt.Sprintf("app in (app1, app%d)", random.IntN(6)))
			}
			if random.IntN(4) == 0 {
				o.Namespace = "ns0"
			}
			whole, page, got := &corev1.PodList{}, &corev1.PodList{}, []string{}
			g.Expect(reader.List(t.Context(), whole, &o, of...)).To(Succeed())
			for {
				o.Limit = 1 + random.Int64N(20)
				err := reader.List(t.Context(), page, &o, of...)
				if apierrors.IsResourceExpired(err) { // too much was written: it is not compared
					expired++
					got = contents(whole)
					break
				}
				g.Expect(err).NotTo(HaveOccurred())
				got = append(got, contents(page)...)
				g.Expect(page.ResourceVersion).To(Equal(whole.ResourceVersion))
				if page.RemainingItemCount != nil {
					g.Expect(int(*page.RemainingItemCount) + len(got)).To(Equal(len(whole.Items)))
				}
				if o.Continue = page.Continue; o.Continue == "" {
					break
				}
				for range random.IntN(30) {
					write()
				}
			}
			g.Expect(got).To(Equal(contents(whole)), "%+v", o)
		}
		g.Expect(expired).To(BeNumerically("<", lists/3), "most are read to their ends")
	})
}

// TestPagesWhileOthersWrite has several readers of pages beside a writer, for the race detector.
// The writer writes some objects for each page that was read: a faster writer would have a slow
// reader's list expire again and again.
func TestPagesWhileOthersWrite(t *testing.T) {
	const readers, lists, writesPerPage = 4, 5, 20
	f := pods(t, "flat engine", numbered(300)...)
	pages, written := make(chan struct{}, readers), make(chan struct{})
	go func() {
		defer close(written)
		version := 1000
		for range pages {
			for range writesPerPage {
				f.store.put(pod("ns1", fmt.Sprintf("pod%04d", version%300), version))
				version++
			}
		}
	}()
	var reading sync.WaitGroup
	for i := range readers {
		reading.Go(func() {
			opts := client.ListOptions{Limit: 40}
			if i%2 == 0 {
				opts.LabelSelector, _ = labels.Parse("name")
			}
			for range lists {
				seen, err := pageByPage(t.Context(), f, opts, pages)
				for apierrors.IsResourceExpired(err) { // the others' pages had too much written: it begins again
					seen, err = pageByPage(t.Context(), f, opts, pages)
				}
				if err != nil || !slices.IsSorted(seen) || len(slices.Compact(seen)) != len(seen) || len(seen) < 300 {
					t.Errorf("%d objects were listed, sorted: %t, error: %v", len(seen), slices.IsSorted(seen), err)
				}
			}
		})
	}
	reading.Wait()
	close(pages)
	<-written
}

// pageByPage reads a list to its end, tells read of each page, and returns the objects' names.
func pageByPage(ctx context.Context, f fixture, opts client.ListOptions, read chan<- struct{}) (seen []string, err error) {
	for {
		list := &corev1.PodList{}
		if err := reader.List(ctx, list, &opts, f.CacheReader); err != nil {
			return seen, err
		}
		read <- struct{}{}
		seen = append(seen, names(list)...)
		if opts.Continue = list.Continue; opts.Continue == "" {
			return seen, nil
		}
	}
}

// begin reads the first page of a list and returns the token for the second.
func begin(f fixture, opts ...client.ListOption) client.Continue {
	list := &corev1.PodList{}
	f.Expect(f.List(f.context(), list, append(opts, client.Limit(2))...)).To(Succeed())
	f.Expect(list.Continue).NotTo(BeEmpty())
	return client.Continue(list.Continue)
}

// proceed reads another page.
func proceed(f fixture, token client.Continue, opts ...client.ListOption) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	return list, f.List(f.context(), list, append([]client.ListOption{token, client.Limit(2)}, opts...)...)
}

func expectExpired(f fixture, token client.Continue) {
	_, err := proceed(f, token)
	f.Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)
	f.Expect(apierrors.ReasonForError(err)).To(BeEquivalentTo("Expired"))
}

// TestAPageBeginsWhereTheOneBeforeEnded: what is before must not be gathered again for
// every page.
func TestAPageBeginsWhereTheOneBeforeEnded(t *testing.T) {
	const matches = 5000
	f := pods(t, "flat engine")
	for i := range 3 * matches {
		p := pod("ns", fmt.Sprintf("pod%05d", i), i+1)
		p.Labels["third"] = fmt.Sprint(i % 3)
		f.store.put(p)
	}
	selector := client.MatchingLabels{"third": "1"}
	list, err := proceed(f, begin(f, selector), selector, client.Limit(matches-4))
	f.Expect(err).NotTo(HaveOccurred())
	last := client.Continue(list.Continue)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const reads = 10
	for range reads {
		list, err := proceed(f, last, selector)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(names(list)).To(Equal([]string{"ns/pod14995", "ns/pod14998"}))
	}
	runtime.ReadMemStats(&after)
	f.Expect((after.TotalAlloc-before.TotalAlloc)/reads).To(BeNumerically("<", matches*8), "less than a word for each match")
}

func TestATokenExpires(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		synctest.Test(t, func(t *testing.T) {
			f := pods(t, store, numbered(9)...)
			kept, lost := begin(f), begin(f)
			time.Sleep(4 * time.Minute)
			list, err := proceed(f, kept)
			f.Expect(err).NotTo(HaveOccurred())
			time.Sleep(4 * time.Minute)
			_, err = proceed(f, client.Continue(list.Continue))
			f.Expect(err).NotTo(HaveOccurred(), "each page gives time for the next")
			expectExpired(f, lost)
		})
	})
}

func TestTheLastPageCanBeReadAgainForAWhile(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		synctest.Test(t, func(t *testing.T) {
			f := pods(t, store, numbered(4)...)
			token, other := begin(f), begin(f)
			last := func() []string {
				list, err := proceed(f, token)
				f.Expect(err).NotTo(HaveOccurred())
				f.Expect(list.Continue).To(BeEmpty())
				return names(list)
			}
			want := last()
			f.Expect(want).To(HaveLen(2))
			f.store.put(pod("ns2", "pod9", 10))
			time.Sleep(20 * time.Second)
			f.Expect(last()).To(Equal(want))
			time.Sleep(time.Minute)
			expectExpired(f, token)
			_, err := proceed(f, other)
			f.Expect(err).NotTo(HaveOccurred(), "another list of the same state goes on")
		})
	})
}

// TestListsThatAreCompleteDoNotEndOthers reads a great many lists to their ends.
func TestListsThatAreCompleteDoNotEndOthers(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, numbered(5)...)
		going, err := proceed(f, begin(f))
		f.Expect(err).NotTo(HaveOccurred())
		for range 100 {
			list, err := proceed(f, begin(f), client.Limit(10))
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(list.Continue).To(BeEmpty())
		}
		_, err = proceed(f, client.Continue(going.Continue))
		f.Expect(err).NotTo(HaveOccurred())
	})
}

// TestAStateIsDroppedThoughNobodyReads begins a list, and reads nothing any more.
func TestAStateIsDroppedThoughNobodyReads(t *testing.T) {
	for _, store := range []string{"indexer", "decoded engine"} {
		t.Run(store, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := pods(t, store, numbered(9)...)
				listed := pod("ns0", "listed", 10)
				kept := weak.Make(listed)
				f.store.put(listed)
				begin(f)
				f.store.remove(listed)
				listed = nil
				time.Sleep(4 * time.Minute)
				runtime.GC()
				f.Expect(kept.Value()).NotTo(BeNil())
				time.Sleep(2 * time.Minute)
				runtime.GC()
				f.Expect(kept.Value()).To(BeNil())
				runtime.KeepAlive(f)
			})
		})
	}
}

// TestListsOfOnePageDoNotEndOthers begins a great many lists without reading on, as
// callers do that ask whether there is anything.
func TestListsOfOnePageDoNotEndOthers(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, numbered(40)...)
		first := begin(f)
		list, err := proceed(f, first)
		f.Expect(err).NotTo(HaveOccurred())
		abandoned := begin(f)
		for range 100 {
			begin(f)
		}
		expectExpired(f, abandoned)
		for list.Continue != "" {
			list, err = proceed(f, client.Continue(list.Continue))
			f.Expect(err).NotTo(HaveOccurred())
		}
		// If all lists were continued, the oldest one goes.
		oldest := begin(f)
		for range 20 {
			_, err := proceed(f, begin(f))
			f.Expect(err).NotTo(HaveOccurred())
		}
		expectExpired(f, oldest)
	})
}

// TestATokenForOtherOptions shows that it is harmless: it continues, behind the key that
// it names, with what those options select of the same state.
func TestATokenForOtherOptions(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, pod("a", "1", 1), pod("a", "2", 2), pod("a", "3", 3), pod("b", "1", 4), pod("b", "2", 5), pod("c", "1", 6))
		token := begin(f)
		f.store.put(pod("b", "0", 7))
		list, err := proceed(f, token, client.InNamespace("b"))
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(names(list)).To(Equal([]string{"b/1", "b/2"}))
		token = begin(f)
		list, err = proceed(f, token, client.MatchingLabels{"name": "3"})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(names(list)).To(Equal([]string{"a/3"}))

		list, err = proceed(f, begin(f), client.InNamespace("a"), client.MatchingFields{"metadata.name": "1"})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(names(list)).To(BeEmpty(), "what it would list is before the key")

		other := pods(t, store, numbered(5)...)
		expectExpired(other, begin(f))
		list = &corev1.PodList{}
		err = reader.List(t.Context(), list, &client.ListOptions{Continue: string(begin(f))}, f.CacheReader, other.CacheReader)
		f.Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "a token of one reader, used for two: %v", err)
	})
}

// TestKeptListMetaHoldsNoObjects keeps the metadata of a page alone, as a caller may that
// notes how far it is.
func TestKeptListMetaHoldsNoObjects(t *testing.T) {
	for _, store := range []string{"indexer", "decoded engine"} {
		t.Run(store, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := pods(t, store, numbered(9)...)
				listed := pod("ns0", "listed", 10)
				kept := weak.Make(listed)
				f.store.put(listed)
				list := &corev1.PodList{}
				f.Expect(f.List(t.Context(), list, client.Limit(2))).To(Succeed())
				noted := list.ListMeta
				f.Expect(noted.RemainingItemCount).To(HaveValue(Equal(int64(8))))
				list = nil
				f.store.remove(listed)
				listed = nil
				time.Sleep(10 * time.Minute) // the page has expired
				runtime.GC()
				f.Expect(kept.Value()).To(BeNil())
				runtime.KeepAlive(f)
				runtime.KeepAlive(noted)
			})
		})
	}
}
