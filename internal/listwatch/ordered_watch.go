// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"runtime"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// orderedWatch calls a function with the events of another watch, for several events at once, and
// sends the results in the order of the events. Unlike watch.Filter it ends with Stop, even if its
// results are not received.
type orderedWatch struct {
	from    watch.Interface
	each    func(watch.Event) watch.Event
	results chan watch.Event
	stopped chan struct{}
	stop    sync.Once
	running sync.WaitGroup
}

// readAhead is the number of events of a watch that may be in work: enough to keep all cores busy,
// and little memory compared to the objects of a kind.
const readAhead = 64

// job is an event in work.
type job struct {
	event watch.Event
	done  chan watch.Event // holds the result; closed without one if there is none
}

// inOrder returns a watch that owns the watch from: stopping it stops from. Its goroutines end when
// from ends, or with Stop, which waits for them.
func inOrder(from watch.Interface, each func(watch.Event) watch.Event) watch.Interface {
	w := &orderedWatch{from: from, each: each, results: make(chan watch.Event), stopped: make(chan struct{})}
	queue, jobs := make(chan *job, readAhead), make(chan *job, readAhead)
	w.running.Go(func() { w.receive(queue, jobs) })
	for range runtime.GOMAXPROCS(0) {
		w.running.Go(func() { w.work(jobs) })
	}
	w.running.Go(func() { w.send(queue) })
	return w
}

// receive sends each event to the workers and, in the order of the events, to send.
func (w *orderedWatch) receive(queue, jobs chan<- *job) {
	defer close(queue)
	defer close(jobs)
	for {
		j := &job{done: make(chan watch.Event, 1)}
		var open bool
		select {
		case j.event, open = <-w.from.ResultChan():
		case <-w.stopped:
		}
		if !open {
			return
		}
		select {
		case queue <- j:
			jobs <- j // jobs has as much room as queue, and each worker holds one job more
		case <-w.stopped:
			return
		}
	}
}

func (w *orderedWatch) work(jobs <-chan *job) {
	for j := range jobs {
		w.do(j)
	}
}

// do makes the result of one event. A panic is handled as in client-go's goroutine that decodes a
// watch: if the process goes on, the watch ends.
func (w *orderedWatch) do(j *job) {
	defer utilruntime.HandleCrash()
	defer close(j.done)
	j.done <- w.each(j.event)
}

// send sends the results, and ends at the first event without a result.
func (w *orderedWatch) send(queue <-chan *job) {
	defer close(w.results)
	for j := range queue {
		result, ok := <-j.done
		if !ok {
			return
		}
		select {
		case w.results <- result:
		case <-w.stopped:
			return
		}
	}
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
