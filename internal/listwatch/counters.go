// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/relist"
	"github.com/tarn-dev/tarn/internal/stats"
)

// Reason says why a watch ended, or why a list was begun.
type Reason int32

// The reasons. First and Retried are those of lists alone.
const (
	First       Reason = iota // the first list
	Retried                   // the list before was not complete
	Closed                    // the API server closed the watch, as it does after some minutes
	Silent                    // the watch was silent for too long, see Options.IdleTimeout
	Expired                   // the API server does not have the version any more (410)
	Undecodable               // an object could not be decoded
	Failed                    // the API server ended the watch with another error
	Refused                   // the API server did not begin the watch, or could not be reached
	Restored                  // the versions of the API server went back
	Absent                    // the kind is not served
	Changed                   // something else is to be kept
	Stopped                   // the informer ended
	reasons
)

var reasonNames = [reasons]string{
	"first", "retry", "closed", "silent", "expired", "undecodable", "error", "refused", "restored", "absent", "changed", "stopped",
}

// String returns the word for the reason in metrics.
func (r Reason) String() string { return reasonNames[r] }

// ReasonsOfLists yields the reasons for which a list may begin, and ReasonsOfEnds those for which a watch
// may end.
func ReasonsOfLists() iter.Seq[Reason] { return reasonsFrom(First, Stopped) }

// ReasonsOfEnds is described at [ReasonsOfLists].
func ReasonsOfEnds() iter.Seq[Reason] { return reasonsFrom(Closed, reasons) }

// reasonsFrom yields the reasons up to the end, which is not among them.
func reasonsFrom(first, end Reason) iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for r := first; r < end && yield(r); r++ {
		}
	}
}

// Counters count the lists and watches of one [New]. A nil *Counters counts nothing. Counters must
// not be copied. They are safe for concurrent use, but as with a Reflector, there is one watch at a time.
type Counters struct {
	// Own returns the reason for the end of a watch, from the cause with which its context ended. Nil
	// stands for Stopped.
	Own func(cause error) Reason

	lists, ends [reasons]atomic.Uint64
	decoded     stats.Histogram
	cause       atomic.Int32 // a Reason: of the end of the watch of now; First if it is not known
	next        atomic.Int32 // a Reason: of the next list
}

// Stats are what a [Counters] has counted.
type Stats struct {
	// Lists is how many lists were begun, by reason; streamed ones are watches as well. Ends is how
	// many watches have ended. Both are empty for reasons that have not occurred.
	Lists, Ends map[Reason]uint64
	// Decoded is how long the objects of watch events took to be decoded and kept, each by itself.
	Decoded stats.Durations
}

// Stats returns what was counted so far.
func (t *Counters) Stats() Stats {
	s := Stats{Lists: map[Reason]uint64{}, Ends: map[Reason]uint64{}, Decoded: t.decoded.Read()}
	for r := range reasons {
		if n := t.lists[r].Load(); n > 0 {
			s.Lists[r] = n
		}
		if n := t.ends[r].Load(); n > 0 {
			s.Ends[r] = n
		}
	}
	return s
}

// received counts an event that was finished, and how long that took.
func (t *Counters) received(e watch.Event, begin time.Duration) {
	if e.Type == watch.Error {
		t.cause.Store(int32(reasonOf(apierrors.FromObject(e.Object))))
	} else if e.Type != watch.Bookmark {
		t.decoded.Since(begin)
	}
}

// ending notes why the watch of now is ended.
func (t *Counters) ending(why Reason) {
	if t != nil {
		t.cause.Store(int32(why))
	}
}

// listing counts a list that begins; a later page is no new list.
func (t *Counters) listing(opts metav1.ListOptions) {
	if t != nil && opts.Continue == "" {
		t.lists[t.next.Swap(int32(Retried))].Add(1)
	}
}

// ended counts a watch that has ended. Unknown is the reason if nothing has told of another one.
func (t *Counters) ended(ctx context.Context, unknown Reason) {
	reason := Reason(t.cause.Swap(int32(First)))
	switch {
	case ctx.Err() != nil && t.Own != nil: // before what was told: client-go makes an error of a connection that is cut off
		reason = t.Own(context.Cause(ctx))
	case ctx.Err() != nil:
		reason = Stopped
	case reason == First:
		reason = unknown
	}
	t.ends[reason].Add(1)
	t.next.Store(int32(reason))
}

// reasonOf returns the reason for an error of a watch.
func reasonOf(err error) Reason {
	switch {
	case isExpired(err):
		return Expired
	case IsUndecodable(err):
		return Undecodable
	}
	return Failed
}

// IsUndecodable reports whether an error is what client-go makes of an event that it cannot decode.
func IsUndecodable(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == "ClientWatchDecoding" {
			return true
		}
	}
	return false
}

// watch opens a watch, and counts its end.
func (t *Counters) watch(ctx context.Context, opts metav1.ListOptions, open func(context.Context, metav1.ListOptions) (watch.Interface, error)) (watch.Interface, error) {
	if t == nil {
		return open(ctx, opts)
	}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		t.listing(opts)
	}
	w, err := open(ctx, opts)
	if err != nil {
		t.notOpened(ctx, err)
		return nil, err
	}
	return &countedWatch{Interface: w, ended: sync.OnceFunc(func() { t.ended(ctx, Closed) })}, nil
}

// notOpened counts a watch that could not be opened.
func (t *Counters) notOpened(ctx context.Context, err error) {
	switch again := nothingBrought(0); {
	case errors.As(err, &again): // it was not tried
		t.next.Store(int32(Silent))
	case errors.As(err, new(relist.Error)): // nor was this: the list has the reason of the last watch
	case reasonOf(err) == Expired:
		t.ended(ctx, Expired)
	default:
		t.ended(ctx, Refused)
	}
}

// countedWatch is a watch whose end is counted.
type countedWatch struct {
	watch.Interface
	ended func()
}

// Stop implements watch.Interface. The watch ends first, because those below it may tell until then why.
func (w *countedWatch) Stop() {
	w.Interface.Stop()
	w.ended()
}
