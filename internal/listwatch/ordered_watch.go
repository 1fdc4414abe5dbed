// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"runtime"
	"sync"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// orderedWatch calls a function with the events of another watch, and sends the results in the
// order of the events. It has one goroutine. That one calls the function itself with an event that
// comes alone: to hand the event to another goroutine would wake a core, which takes as long as to
// decode a small object. When events are queued, workers call the function for several events at
// once. Unlike watch.Filter an orderedWatch ends with Stop, even if its results are not received.
type orderedWatch struct {
	from    watch.Interface
	each    func(watch.Event) watch.Event
	results chan watch.Event
	stopped chan struct{}
	stop    sync.Once
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows
	waiting []*job     // those of the queue that nobody works on, in their order
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

// inOrder returns a watch that owns the watch from: stopping it stops from. Its goroutines end when
// from ends, or with Stop, which waits for them.
func inOrder(from watch.Interface, each func(watch.Event) watch.Event) watch.Interface {
	w := &orderedWatch{from: from, each: each, results: make(chan watch.Event), stopped: make(chan struct{})}
	w.running.Go(w.run)
	return w
}

// run passes on events until the watch ends.
func (w *orderedWatch) run() {
	defer close(w.results)
	for {
		select {
		case event, open := <-w.from.ResultChan():
			if !open || !w.passOn(event) {
				return
			}
		case <-w.stopped:
			return
		}
	}
}

// passOn passes on an event, and those that are queued behind it. It reports whether the watch goes
// on.
func (w *orderedWatch) passOn(event watch.Event) bool {
	first := &job{event: event}
	if w.do(first); first.failed {
		return false
	}
	select {
	case w.results <- first.result:
	case <-w.stopped:
		return false
	}
	select {
	case next, open := <-w.from.ResultChan():
		return open && w.passOnQueue(next)
	default:
		return true
	}
}

// passOnQueue passes on an event and those that come while it has not passed on all of them.
func (w *orderedWatch) passOnQueue(event watch.Event) bool {
	queue, from := []*job{w.enqueue(event)}, w.from.ResultChan()
	for len(queue) > 0 {
		first := queue[0]
		if w.leftAlone(first) {
			w.do(first)
		}
		// Each channel is nil while there is nothing to do with it.
		receive, done, results, result := from, first.done, chan<- watch.Event(nil), watch.Event{}
		select {
		case <-done:
			if first.failed {
				return false
			}
			done, results, result = nil, w.results, first.result
		default:
		}
		if len(queue) == readAhead {
			receive = nil
		}
		select {
		case event, open := <-receive:
			if open {
				queue = append(queue, w.enqueue(event))
			} else {
				from = nil
			}
		case <-done:
		case results <- result:
			queue = queue[1:]
		case <-w.stopped:
			return false
		}
	}
	return from != nil
}

// enqueue makes an event wait for a worker. It starts a worker unless there are enough.
func (w *orderedWatch) enqueue(event watch.Event) *job {
	j := &job{event: event, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, j)
	if workers.Add(1) > int32(runtime.GOMAXPROCS(0)) {
		workers.Add(-1)
		return j
	}
	w.workers++
	w.running.Go(func() {
		for j := w.next(); j != nil; j = w.next() {
			w.do(j)
		}
	})
	return j
}

// next returns the event that a worker is to work on next. It returns nil if the worker is to end.
func (w *orderedWatch) next() *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.stopped:
		w.waiting = nil
	default:
	}
	if len(w.waiting) == 0 {
		w.workers--
		workers.Add(-1)
		return nil
	}
	return w.takeLocked()
}

func (w *orderedWatch) takeLocked() *job {
	j := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return j
}

// leftAlone reports whether the calling goroutine has to work on j, which is the first event of the
// queue: no worker is on it, and there is none because other watches have all of them.
func (w *orderedWatch) leftAlone(j *job) bool {
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
func (w *orderedWatch) do(j *job) {
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

// Stop implements watch.Interface. It waits until the function has returned from the last event, so
// that no goroutine of a watch is left when its informer ends.
func (w *orderedWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.from.Stop()
	})
	w.running.Wait()
}

// ResultChan implements watch.Interface.
func (w *orderedWatch) ResultChan() <-chan watch.Event { return w.results }
