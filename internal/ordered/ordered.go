// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ordered decodes watches on all cores, in order.
package ordered

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch calls a function with the events of another watch, and sends the results in the
// order of the events. It has one goroutine. The reading goroutine calls the function itself for
// events that come alone, or a few at once: waking a core for another goroutine takes as long as
// decoding a small object. When many events are queued, workers call the function for several events at once, and a
// sender sends the results. Unlike watch.Filter a Watch ends with Stop, even if its results
// are not received.
type Watch struct {
	from    watch.Interface
	each    func(watch.Event) watch.Event
	results chan watch.Event
	ended   chan struct{} // closed when the watch has to end
	end     sync.Once     // ends it
	running sync.WaitGroup
	queue   chan *job     // what the sender has still to send; nil before the first burst
	sent    chan struct{} // closed when the newest sender has ended; of run

	mu      sync.Mutex // guards what follows
	sending bool       // there is a sender
	waiting []*job     // the queued events that nobody works on, in their order
	workers int        // that this watch has
}

// readAhead is the number of events of a watch that may be in work: enough to keep all cores busy,
// and little memory compared to the objects of a kind.
const readAhead = 64

// job is an event of a queue.
type job struct {
	event  watch.Event
	result watch.Event
	done   chan struct{} // closed when the result is there
	failed bool          // there is no result; set before done is closed
}

// workers counts the workers of all watches of the process: there are at most as many as cores. A
// worker is a goroutine that ends when nothing waits, so a watch without a queue has none.
var workers atomic.Int32

// Stream is a watch that is read without its channel.
type Stream interface {
	watch.Interface
	// Next returns the next event. It is not open if there is none any more.
	Next() (event watch.Event, open bool)
}

// New returns a watch that owns the watch from, which may be a Stream: stopping it stops from. Its goroutines end when
// from ends, or with Stop, which waits for them.
func New(from watch.Interface, each func(watch.Event) watch.Event) *Watch {
	w := &Watch{
		from: from, each: each, results: make(chan watch.Event), ended: make(chan struct{}),
		sent: make(chan struct{}),
	}
	close(w.sent)
	w.running.Go(w.run)
	return w
}

// run passes on events until the watch ends. A panic of a decoder is handled as in client-go's
// goroutine that reads a stream.
func (w *Watch) run() {
	defer utilruntime.HandleCrash()
	defer close(w.results)
	defer func() { <-w.sent }()
	receive := w.received
	if s, ok := w.from.(Stream); ok {
		receive = (&streamReader{stream: s}).read
	}
	took := time.Duration(0)
	for {
		event, queued, open := receive(took)
		switch {
		case !open || w.hasEnded(): // the error of a stream that was closed is no event
			return
		case queued || w.isSending():
			if !w.enqueue(event) {
				return
			}
			took -= took / 8 // it may have been long by chance
		default:
			begin, alone := time.Now(), job{event: event}
			if w.do(&alone); alone.failed || !w.send(alone.result) {
				return
			}
			took = time.Since(begin)
		}
	}
}

// received receives the next event. It is queued if it was there already.
func (w *Watch) received(time.Duration) (event watch.Event, queued, open bool) {
	select {
	case event, open = <-w.from.ResultChan():
		return event, true, open
	default:
	}
	select {
	case event, open = <-w.from.ResultChan():
	case <-w.ended:
	}
	return event, false, open
}

// patience is the number of events that may come faster than one goroutine can pass them on, before others help
// it: a worker and a sender for an event or two take longer than the event, most of it for growing their stacks.
const patience = 8

// streamReader reads the events of a stream.
type streamReader struct {
	stream Stream
	fast   int // events in a row that came faster than the one before was passed on
}

// read reads the next event. It counts as queued if it is one of many that took less time to read than it took
// to pass on the one before.
func (r *streamReader) read(took time.Duration) (event watch.Event, queued, open bool) {
	begin := time.Now()
	event, open = r.stream.Next()
	if r.fast++; time.Since(begin) >= took {
		r.fast = 0
	}
	return event, r.fast > patience, open
}

// send sends a result. It returns false if the watch ends.
func (w *Watch) send(result watch.Event) bool {
	select {
	case w.results <- result:
		return true
	case <-w.ended:
		return false
	}
}

func (w *Watch) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

func (w *Watch) isSending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sending
}

// enqueue puts an event into the queue, and starts a worker unless there are enough, and a sender
// unless there is one. It returns false if the watch ends.
func (w *Watch) enqueue(event watch.Event) bool {
	j := &job{event: event, done: make(chan struct{})}
	w.mu.Lock()
	if w.queue == nil {
		w.queue = make(chan *job, readAhead)
	}
	w.waiting = append(w.waiting, j)
	if workers.Add(1) > int32(runtime.GOMAXPROCS(0)) {
		workers.Add(-1)
	} else {
		w.workers++
		w.running.Go(w.work)
	}
	w.mu.Unlock()
	select {
	case w.queue <- j:
	case <-w.ended:
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sending {
		w.sending, w.sent = true, make(chan struct{})
		sent := w.sent
		w.running.Go(func() {
			defer close(sent)
			w.sendQueue()
		})
	}
	return true
}

// sendQueue sends the results of the queue until it is empty.
func (w *Watch) sendQueue() {
	for {
		select {
		case j := <-w.queue:
			if w.leftAlone(j) {
				w.do(j)
			}
			select {
			case <-j.done:
			case <-w.ended:
				return
			}
			if j.failed {
				w.Close()
				return
			}
			if !w.send(j.result) {
				return
			}
		default:
			if w.noneQueued() {
				return
			}
		}
	}
}

// noneQueued reports whether the sender ends, because the queue is empty.
func (w *Watch) noneQueued() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = len(w.queue) > 0
	return !w.sending
}

// work makes results until no event waits.
func (w *Watch) work() {
	for j := w.next(); j != nil; j = w.next() {
		w.do(j)
	}
}

// next returns the event that a worker is to work on next. It returns nil if the worker is to end.
func (w *Watch) next() *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hasEnded() {
		w.waiting = nil
	}
	if len(w.waiting) == 0 {
		w.workers--
		workers.Add(-1)
		return nil
	}
	return w.takeLocked()
}

func (w *Watch) takeLocked() *job {
	j := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return j
}

// leftAlone reports whether the sender has to work on j, which is the first event of the queue: no
// worker is on it, and there is none because other watches have all of them.
func (w *Watch) leftAlone(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.workers > 0 || len(w.waiting) == 0 || w.waiting[0] != j {
		return false
	}
	w.takeLocked()
	return true
}

// do makes the result of one event. A panic is handled as in client-go's goroutine that decodes a
// watch: if the process goes on, the watch ends.
func (w *Watch) do(j *job) {
	defer utilruntime.HandleCrash()
	j.failed = true
	defer func() {
		if j.done != nil {
			close(j.done)
		}
	}()
	j.result = w.each(j.event)
	j.failed = false
}

// Close lets the goroutines of the watch end, and does not wait for them.
func (w *Watch) Close() {
	w.end.Do(func() {
		close(w.ended)
		w.from.Stop()
	})
}

// Stop implements watch.Interface. It waits until the function has returned from the last event, so
// that no goroutine of a watch is left when its informer ends.
func (w *Watch) Stop() {
	w.Close()
	w.running.Wait()
}

// ResultChan implements watch.Interface.
func (w *Watch) ResultChan() <-chan watch.Event { return w.results }
