// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// joining is a source that may be followed, as the wide watches of package listwatch. The script says what is to follow next.
type joining struct {
	script chan func(ctx context.Context, version string, to store) (followed bool, err error)
	mu     sync.Mutex // guards lists
	lists  []metav1.ListOptions
}

type store = interface {
	toolscache.ReflectorStore
	toolscache.ReflectorBookmarkStore
}

// Follow implements follower.
func (s *joining) Follow(ctx context.Context, version string, to store) (followed bool, err error) {
	select {
	case next := <-s.script:
		return next(ctx, version, to)
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// List implements ListerWatcher.
func (s *joining) List(opts metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = append(s.lists, opts)
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "30"}}, nil
}

// Watch implements ListerWatcher: the first watch says that something may be followed now.
func (s *joining) Watch(metav1.ListOptions) (watch.Interface, error) { return nil, againError{} }

// IsWatchListSemanticsUnSupported tells the Reflector to list.
func (s *joining) IsWatchListSemanticsUnSupported() bool { return true }

type againError struct{}

func (againError) Error() string { return "listing again" }
func (againError) ListsAgain()   {}

// TestAListOrAFollowerBeginsWhereTheStateIs, whichever of the two came before.
func TestAListOrAFollowerBeginsWhereTheStateIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := &joining{script: make(chan func(context.Context, string, store) (bool, error))}
		var failures []error
		i, err := New(func(Receiver) toolscache.ListerWatcher { return s }, Options{Example: &corev1.Pod{}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) {
			g.Expect(r).NotTo(BeNil())
			failures = append(failures, err)
		})).To(Succeed())
		ctx, stop := context.WithCancel(t.Context())
		go i.RunWithContext(ctx)
		defer func() { stop(); <-i.Ended() }()
		versions := make(chan string, 10)
		follows := func(reaches string) {
			s.script <- func(_ context.Context, version string, to store) (bool, error) {
				versions <- version
				g.Expect(to.Replace(nil, "10")).To(Succeed())
				g.Expect(to.Bookmark(reaches)).To(Succeed())
				return true, againError{}
			}
		}
		isAlone := func() { s.script <- func(context.Context, string, store) (bool, error) { return false, nil } }

		follows("20")
		g.Expect(<-versions).To(Equal("0"))
		synctest.Wait()
		g.Expect(i.LastSyncResourceVersion()).To(Equal("20"))
		isAlone()
		s.script <- func(_ context.Context, version string, to store) (bool, error) { // after the end of a watch
			versions <- version
			return true, errors.New("refused")
		}
		g.Expect(<-versions).To(Equal("30"))
		g.Expect(s.lists).To(HaveLen(1))
		g.Expect(s.lists[0]).To(Equal(metav1.ListOptions{ResourceVersion: "20", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}))
		isAlone()
		time.Sleep(time.Minute)
		synctest.Wait()
		g.Expect(failures).To(ConsistOf(MatchError("refused")))
		g.Expect(s.lists).To(HaveLen(2))
		g.Expect(s.lists[1].ResourceVersion).To(Equal("30"))
		g.Expect(i.LastSyncResourceVersion()).To(Equal("30"))

		s.script <- func(ctx context.Context, version string, to store) (bool, error) { // the server was restored
			versions <- version
			g.Expect(to.Bookmark("5")).To(Succeed())
			g.Expect(ctx.Err()).To(HaveOccurred())
			return true, nil
		}
		g.Expect(<-versions).To(Equal("30"))
		begin := time.Now()
		follows("11")
		g.Expect(<-versions).To(Equal("5"), "the source has it")
		g.Expect(time.Since(begin)).To(BeNumerically(">=", 800*time.Millisecond))
		synctest.Wait()
		g.Expect(i.LastSyncResourceVersion()).To(Equal("11"))
	})
}
