// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// TestStuckWatchersEnd shows that a watcher which nobody reads ends by itself when the history has
// passed the next event, wherever it is stuck, and that a client that comes back is told 410.
func TestStuckWatchersEnd(t *testing.T) {
	const (
		there    = 40
		kept     = 50
		buffered = 16
	)
	stream := withBookmarks(storage.ListOptions{Predicate: storage.Everything, SendInitialEvents: ptr.To(true)})
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		watches := map[string]watch.Interface{"at events that it followed": watchAll(t, c, everything("1"))}
		for n := range there {
			s.put(numbered(fmt.Sprintf("pod-%02d", n), n))
			synctest.Wait()
		}
		watches["at events that it resumed from"] = watchAll(t, c, everything("1"))
		watches["at its initial events"] = watchAll(t, c, everything("0"))
		watches["at its initial events, for a list"] = watchAll(t, c, stream)
		slow := watchAll(t, c, stream)
		write := func(writes int) {
			for n := range writes {
				s.put(numbered("one", n))
				synctest.Wait()
			}
			time.Sleep(10 * time.Second)
		}
		write(kept - there)
		received, open := available(slow)
		g.Expect(open).To(BeTrue(), "who is within the history goes on")
		g.Expect(received).To(HaveLen(there + 1 + kept - there))
		write(kept)
		for where, w := range watches {
			events, open := available(w)
			g.Expect(open).To(BeFalse(), where)
			g.Expect(events).To(HaveLen(buffered), "%s: what it had got, and nothing that was held for it", where)
			for _, event := range events {
				g.Expect(event.Type).To(Equal(watch.Added), where)
			}
			last := podOf(events[buffered-1].Object).ResourceVersion
			events, open = available(watchAll(t, c, everything(last)))
			g.Expect(open).To(BeFalse(), where)
			g.Expect(events).To(HaveLen(1), where)
			g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(events[0].Object))).To(BeTrue(), where)
		}
		received, open = available(slow)
		g.Expect(open).To(BeTrue())
		g.Expect(received).To(HaveLen(kept))
	}, withOptions(cacher.Options{HistoryEvents: kept}))
}

// TestReaderThatComesBackIsTold410 reads again after the history has passed the watcher, but
// before it was ended for that.
func TestReaderThatComesBackIsTold410(t *testing.T) {
	const kept = 50
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		w := watchAll(t, c, everything("1"))
		for n := range 2 * kept {
			s.put(numbered("one", n))
			synctest.Wait()
		}
		events, open := available(w)
		g.Expect(open).To(BeFalse())
		last := events[len(events)-1]
		g.Expect(last.Type).To(Equal(watch.Error))
		g.Expect(apierrors.IsResourceExpired(apierrors.FromObject(last.Object))).To(BeTrue(), "%v", last.Object)
		contiguous(t, events[:len(events)-1], 1)
	}, withOptions(cacher.Options{HistoryEvents: kept}))
}
