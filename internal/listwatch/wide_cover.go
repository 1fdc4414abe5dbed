// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/cover"
	"github.com/tarn-dev/tarn/internal/signal"
)

// coverage is what the server sends to a wide watch.
type coverage struct {
	cover     cover.Cover      // of the newest request; nil if the server does not select
	between   bool             // the next request has not begun, and will cover all that are alive
	judged    bool             // it was costly, and the next request has another cover for that
	uncovered chan struct{}    // has an element if a namespace is not covered
	covered   signal.Broadcast // what is covered has changed, or the run was given up
}

// gather waits until no namespace comes any more, for a second at most.
func (w *wideWatch) gather(ctx context.Context) {
	for before, rounds := 0, 0; before != w.count() && rounds < 10; rounds++ {
		before = w.count()
		select {
		case <-time.After(gathering):
		case <-ctx.Done():
			return
		}
	}
}

// coverAll has the request that follows cover all namespaces that are alive. Members are among them, because they have lives.
func (w *wideWatch) coverAll(run *wideRun) cover.Cover {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-run.uncovered:
	default:
	}
	run.cover, run.between = cover.Of(maps.Keys(w.alive), w.most), false
	if run.list != nil {
		run.list.covers = append(run.list.covers, run.cover)
	}
	run.covered.Notify()
	return run.cover
}

// list lists what the cover selects, if there is one: with fewer ranges if a server or a proxy finds the URL too long.
func (w *wideWatch) list(ctx context.Context, run *wideRun, opts metav1.ListOptions) (runtime.Object, error) {
	for {
		opts.ShardSelector = run.cover.Selector()
		listed, err := w.Source.List(ctx, opts)
		if !isTooLong(err) || !w.shorten(run) {
			return listed, err
		}
		w.coverAll(run)
	}
}

// shorten has the next cover have fewer ranges. It reports false if there are few.
func (w *wideWatch) shorten(run *wideRun) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	few := len(run.cover) <= fewestRanges
	if !few {
		w.most = max(len(run.cover)/4, fewestRanges)
	}
	return !few
}

// isTooLong reports whether a server or a proxy has refused a request that may be too long for it.
func isTooLong(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && slices.Contains([]int32{http.StatusBadRequest, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge}, status.Status().Code)
}

// coversLocked reports whether the watch brings a namespace that is alive.
func (c *coverage) coversLocked(namespace string) bool { return c.between || c.cover.Has(namespace) }

// wantLocked asks for another cover.
func (c *coverage) wantLocked() {
	select {
	case c.uncovered <- struct{}{}:
	default:
	}
}

// atPause notes that no request is under way, so that a namespace that comes will be covered by the next.
func (w *wideWatch) atPause(run *wideRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run.between = true
	run.covered.Notify()
}
