// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/variable"
)

// noise is text that no dictionary makes shorter.
var noise = func() string {
	random, text := rand.New(rand.NewPCG(1, 1)), make([]byte, 1<<20)
	for i := range text {
		text[i] = byte(' ' + random.IntN(90))
	}
	return string(text)
}()

// heavy returns a Pod of some KB of its own.
func heavy(n, version int) *corev1.Pod {
	const bytes = 2000
	p, at := pod(fmt.Sprint("ns", n%7), fmt.Sprintf("pod%05d", n), version), version*37%(len(noise)-bytes)
	p.Annotations = map[string]string{"noise": strings.Clone(noise[at : at+bytes])}
	return p
}

// TestPagesThatNobodyReadsHoldAShareOfTheStore asks whether there is anything, again and
// again while much or everything is rewritten, and never uses the token.
func TestPagesThatNobodyReadsHoldAShareOfTheStore(t *testing.T) {
	variable.SkipUnderDetector(t, "it takes more of the heap")
	const many = 5000
	onEveryStore(t, func(t *testing.T, store string) {
		for written, rounds := range map[int]int{many / 8: 12, many: 3} {
			t.Run(fmt.Sprint(written, " objects are rewritten"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					empty := heap()
					f := pods(t, store)
					version := 0
					write := func(objects int) {
						for range objects {
							version++
							f.store.put(heavy(version%many, version))
						}
					}
					write(many)
					f.Expect(f.List(t.Context(), &corev1.PodList{})).To(Succeed())
					write(many)
					full := heap()
					var token client.Continue
					for range rounds {
						token = begin(f)
						write(written)
						time.Sleep(10 * time.Second)
					}
					time.Sleep(time.Minute) // client-go's store is looked at from time to time
					held, size := heap()-full, full-empty
					t.Logf("%d KB held beside %d KB", held>>10, size>>10)
					f.Expect(held).To(BeNumerically("<", size*3/10))
					if written == many {
						expectExpired(f, token)
						return
					}
					_, err := proceed(f, token)
					f.Expect(err).NotTo(HaveOccurred())
				})
			})
		}
	})
}

// TestPagesGoOnWhileALittleIsRewritten changes one object, however often, which takes one
// old version of it.
func TestPagesGoOnWhileALittleIsRewritten(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store)
		for n := range 1000 {
			f.store.put(heavy(n, n+1))
		}
		token := begin(f)
		for version := range 5000 {
			f.store.put(heavy(version%3, 2000+version))
		}
		for range 5 {
			begin(f) // client-go's store is looked at now
		}
		list, err := proceed(f, token)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(list.Items[0].ResourceVersion).To(Equal("15"))
	})
}

// TestPagesThatAreReadOutlastTheOthers reads one list slowly, while others are begun
// between changes of the same few objects: these hold most, and go first.
func TestPagesThatAreReadOutlastTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pods(t, "flat engine")
		const many = 4000
		for n := range many {
			f.store.put(heavy(n, n+1))
		}
		list, err := proceed(f, begin(f))
		f.Expect(err).NotTo(HaveOccurred())
		idle, version := []client.Continue{}, many
		for range 10 {
			for n := range many / 10 {
				version++
				f.store.put(heavy(n, version))
			}
			time.Sleep(time.Second) // what pages hold is looked at once a second
			idle = append(idle, begin(f))
			list, err = proceed(f, client.Continue(list.Continue))
			f.Expect(err).NotTo(HaveOccurred())
		}
		for _, token := range idle[:5] {
			expectExpired(f, token)
		}
		for _, token := range idle[9:] {
			_, err := proceed(f, token)
			f.Expect(err).NotTo(HaveOccurred())
		}
	})
}

// TestAListThatIsReadGoesOnWhateverIsWritten rewrites everything between two pages: of a
// list that is being read, the state may hold as much as the store.
func TestAListThatIsReadGoesOnWhateverIsWritten(t *testing.T) {
	for _, store := range []string{"flat engine", "decoded engine"} {
		t.Run(store, func(t *testing.T) {
			f := pods(t, store)
			const many = 3000
			for n := range many {
				f.store.put(heavy(n, n+1))
			}
			list, err := proceed(f, begin(f))
			f.Expect(err).NotTo(HaveOccurred())
			for version := range 3 * many {
				f.store.put(heavy(version%many, many+version))
			}
			list, err = proceed(f, client.Continue(list.Continue))
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(contents(list)).To(Equal([]string{"ns0/pod00028@29", "ns0/pod00035@36"}))
		})
	}
}

// TestAListThatIsReadDoesNotKeepOthersFromBeginning: what its state holds is not held for them.
func TestAListThatIsReadDoesNotKeepOthersFromBeginning(t *testing.T) {
	f := pods(t, "flat engine")
	const many = 3000
	for n := range many {
		f.store.put(heavy(n, n+1))
	}
	_, err := proceed(f, begin(f))
	f.Expect(err).NotTo(HaveOccurred())
	for version := range many {
		f.store.put(heavy(version%many, many+version))
	}
	token := begin(f)
	for version := range 10 {
		f.store.put(heavy(version, 2*many+version))
	}
	_, err = proceed(f, token)
	f.Expect(err).NotTo(HaveOccurred())
}

// TestPagesAreDroppedOnDemand drops those of a store that is not used any more.
func TestPagesAreDroppedOnDemand(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store string) {
		f := pods(t, store, numbered(9)...)
		token := begin(f)
		f.store.reads().DropPages()
		expectExpired(f, token)
		_, err := proceed(f, begin(f))
		f.Expect(err).NotTo(HaveOccurred(), "others can begin")
	})
}

// TestPagesOfAStoreThatIsGone drops a store with kept pages: nothing holds the store, though the
// pages have minutes to go.
func TestPagesOfAStoreThatIsGone(t *testing.T) {
	for _, store := range []string{"indexer", "decoded engine"} {
		t.Run(store, func(t *testing.T) {
			var kept weak.Pointer[corev1.Pod]
			func() {
				f := pods(t, store, numbered(9)...)
				listed := pod("ns0", "listed", 10)
				kept = weak.Make(listed)
				f.store.put(listed)
				begin(f)
			}()
			heap()
			if kept.Value() != nil {
				t.Error("the objects of the store are still held")
			}
		})
	}
}
