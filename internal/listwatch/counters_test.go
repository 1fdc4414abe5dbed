// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/relist"
)

// scripted is a source whose watch brings these events and ends.
type scripted struct {
	bookmarking
	events []watch.Event
	err    error // of a watch
}

func (s *scripted) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return &corev1.PodList{}, s.err
}

func (s *scripted) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if s.err != nil {
		return nil, s.err
	}
	w := watch.NewFakeWithChanSize(len(s.events), true)
	for _, e := range s.events {
		w.Action(e.Type, e.Object)
	}
	w.Stop()
	return w, nil
}

// follow opens a watch and reads it to its end.
func follow(ctx context.Context, lw toolscache.ListerWatcherWithContext, streaming bool) {
	w, err := lw.WatchWithContext(ctx, metav1.ListOptions{SendInitialEvents: ptr.To(streaming), TimeoutSeconds: ptr.To[int64](600)})
	if err != nil {
		return
	}
	defer w.Stop()
	for {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// TestCountersTellWhyWatchesEndAndListsBegin: each row ends a watch in one way; the list that follows
// has the same reason.
func TestCountersTellWhyWatchesEndAndListsBegin(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	failure := func(err error) watch.Event {
		status := apierrors.APIStatus(nil)
		errors.As(err, &status)
		s := status.Status()
		return watch.Event{Type: watch.Error, Object: &s}
	}
	wentBack := errors.New("back")
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(wentBack)
	ended, end := context.WithCancel(context.Background())
	end()
	for name, c := range map[string]struct {
		source  Source
		ctx     context.Context
		want    Reason
		decoded uint64
	}{
		"closed":      {&scripted{events: []watch.Event{{Type: watch.Added, Object: pod}, {Type: watch.Bookmark, Object: pod}}}, context.Background(), Closed, 1},
		"expired":     {&scripted{events: []watch.Event{failure(apierrors.NewResourceExpired("too old"))}}, context.Background(), Expired, 0},
		"gone":        {&scripted{err: &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonGone}}}, context.Background(), Expired, 0},
		"error":       {&scripted{events: []watch.Event{failure(apierrors.NewInternalError(errors.New("broken")))}}, context.Background(), Failed, 0},
		"undecodable": {&scripted{events: []watch.Event{undecodable(errors.New("no number"))}}, context.Background(), Undecodable, 0},
		"refused":     {&scripted{err: apierrors.NewTooManyRequests("later", 1)}, context.Background(), Refused, 0},
		"silent":      {bookmarking{}, context.Background(), Silent, 0},
		"restored":    {bookmarking{}, canceled, Restored, 0},
		"stopped":     {bookmarking{}, ended, Stopped, 0},
		"cut off":     {&scripted{events: []watch.Event{undecodable(context.Canceled)}}, ended, Stopped, 0}, // what client-go reads then
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				counters := &Counters{Own: func(cause error) Reason {
					if errors.Is(cause, wentBack) {
						return Restored
					}
					return Stopped
				}}
				lw := toolscache.ToListerWatcherWithContext(New(c.source, Options{
					Bookmarks: true, IdleTimeout: 3 * time.Minute, Cut: func(time.Duration) {}, Counters: counters,
				}))
				follow(c.ctx, lw, true)
				g.Expect(counters.Stats().Ends).To(Equal(map[Reason]uint64{c.want: 1}))
				g.Expect(counters.Stats().Decoded.Count).To(Equal(c.decoded))
				_, _ = lw.ListWithContext(t.Context(), metav1.ListOptions{})
				_, _ = lw.ListWithContext(t.Context(), metav1.ListOptions{Continue: "page two"})
				g.Expect(counters.Stats().Lists).To(Equal(map[Reason]uint64{First: 1, c.want: 1}))
				_, _ = lw.ListWithContext(t.Context(), metav1.ListOptions{})
				g.Expect(counters.Stats().Lists).To(HaveKeyWithValue(Retried, uint64(1)))
			})
		})
	}
}

// TestCountersTellOfListsAfterIdleTimeouts: when two watches have brought nothing, a list follows.
func TestCountersTellOfListsAfterIdleTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		counters := &Counters{}
		lw := toolscache.ToListerWatcherWithContext(New(bookmarking{}, Options{
			Bookmarks: true, IdleTimeout: 3 * time.Minute, Cut: func(time.Duration) {}, Counters: counters,
		}))
		for range maxCuts + 1 {
			follow(t.Context(), lw, false)
		}
		g.Expect(counters.Stats().Ends).To(Equal(map[Reason]uint64{Silent: maxCuts}), "the last one was not opened")
		_, _ = lw.ListWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(counters.Stats().Lists).To(Equal(map[Reason]uint64{Silent: 1}))
	})
}

// TestCountersTellNothingOfAChangeOver: a namespace lists when its watch has closed, and joins those that are watched together.
func TestCountersTellNothingOfAChangeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		counters, source := &Counters{}, &scripted{}
		lw := toolscache.ToListerWatcherWithContext(New(source, Options{Counters: counters}))
		follow(t.Context(), lw, false)
		source.err = relist.Now()
		follow(t.Context(), lw, false)
		_, _ = lw.ListWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(counters.Stats().Ends).To(Equal(map[Reason]uint64{Closed: 1}))
		g.Expect(counters.Stats().Lists).To(Equal(map[Reason]uint64{Closed: 1}))
	})
}

func TestEachReasonHasAWord(t *testing.T) {
	words := map[string]bool{}
	for r := range reasons {
		words[r.String()] = true
	}
	if len(words) != int(reasons) || words[""] {
		t.Errorf("%d reasons have the words %v", reasons, words)
	}
}

// TestCountersGiveAReasonToTheWatchThatEndedForIt, also if the watch is stopped before its last event
// is worked on.
func TestCountersGiveAReasonToTheWatchThatEndedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		counters, work := &Counters{}, make(chan struct{})
		source := &scripted{events: []watch.Event{undecodable(errors.New("no number"))}}
		lw := toolscache.ToListerWatcherWithContext(New(source, Options{Counters: counters, Each: func(e watch.Event) watch.Event {
			<-work
			return e
		}}))
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait() // the event is in Each
		go w.Stop()
		synctest.Wait()
		close(work)
		synctest.Wait()
		g.Expect(counters.Stats().Ends).To(Equal(map[Reason]uint64{Undecodable: 1}))
		source.events = nil
		follow(t.Context(), lw, false)
		g.Expect(counters.Stats().Ends).To(Equal(map[Reason]uint64{Undecodable: 1, Closed: 1}))
	})
}
