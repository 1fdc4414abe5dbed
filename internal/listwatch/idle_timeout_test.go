// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// bookmarking is a source whose watches send a bookmark each minute, so many times, and then nothing.
type bookmarking struct {
	bookmarks int
	hangs     bool // the server does not even begin to answer
}

func (bookmarking) Example() runtime.Object { return &corev1.Pod{} }
func (bookmarking) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return &corev1.PodList{}, nil
}
func (bookmarking) Finish(e watch.Event) watch.Event { return e }

func (s bookmarking) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w := watch.NewFake()
	go func() {
		defer w.Stop()
		for range s.bookmarks {
			select {
			case <-time.After(time.Minute):
				w.Action(watch.Bookmark, &corev1.Pod{})
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done()
	}()
	return w, nil
}

// lasts returns how long a watch lasts.
func lasts(g *WithT, lw toolscache.ListerWatcherWithContext) time.Duration {
	begin := time.Now()
	w, err := lw.WatchWithContext(context.Background(), metav1.ListOptions{TimeoutSeconds: ptr.To[int64](600)})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	for range w.ResultChan() {
	}
	return time.Since(begin)
}

// TestASilentWatchEnds, in the time after which it cannot be that the server has nothing to say.
func TestASilentWatchEnds(t *testing.T) {
	for name, c := range map[string]struct {
		source bookmarking
		want   []time.Duration // how long one watch after the other lasts
		cuts   int
	}{
		"after bookmarks":             {bookmarking{bookmarks: 5}, []time.Duration{8 * time.Minute, 8 * time.Minute, 8 * time.Minute}, 3},
		"of a server that sends none": {bookmarking{}, []time.Duration{10*time.Minute + grace}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				cuts := 0
				lw := New(c.source, Options{Bookmarks: true, IdleTimeout: 3 * time.Minute, Cut: func(time.Duration) { cuts++ }})
				for _, want := range c.want {
					g.Expect(lasts(g, toolscache.ToListerWatcherWithContext(lw))).To(Equal(want))
				}
				g.Expect(cuts).To(Equal(c.cuts))
			})
		})
	}
}

// TestWatchesThatBringNothingLeadToAList: the server may be at an older version than the watches
// ask for, and a list tells.
func TestWatchesThatBringNothingLeadToAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		lw := toolscache.ToListerWatcherWithContext(New(bookmarking{}, Options{Bookmarks: true, IdleTimeout: 3 * time.Minute, Cut: func(time.Duration) {}}))
		for range maxCuts {
			lasts(g, lw)
		}
		_, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(err).To(MatchError(ContainSubstring("2 watches in a row have brought nothing")))
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred(), "once")
		w.Stop()
	})
}

// TestAWatchThatIsNotAnsweredEnds: there are no headers yet, so nothing can be read.
func TestAWatchThatIsNotAnsweredEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		lw := toolscache.ToListerWatcherWithContext(New(bookmarking{hangs: true}, Options{Bookmarks: true, IdleTimeout: time.Minute, Cut: func(time.Duration) {}}))
		begin := time.Now()
		_, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{TimeoutSeconds: ptr.To[int64](300)})
		g.Expect(err).To(And(MatchError(ContainSubstring("has not begun to answer")), MatchError(context.Canceled)))
		g.Expect(time.Since(begin)).To(Equal(5*time.Minute + grace))
	})
}
