// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"runtime"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// orderedWatch passes the events of another watch to a function, several at once, and sends the
// results in the order of the events. Unlike watch.Filter it ends with Stop, even if nobody has
// received an event.
type orderedWatch struct {
	from    watch.Interface
	each    func(watch.Event) watch.Event
	results chan watch.Event
	stopped chan struct{}
	stop    sync.Once
	running sync.WaitGroup
}

// readAhead is how many events of a watch may be under way: enough to keep all cores busy, and
// little memory beside the objects of a kind.
const readAhead = 64

// job is an event under way.
type job struct {
	event watch.Event
	done  chan watch.Event // holds the result; closed without one if there is none
}

// inOrder returns a watch that owns from: stopping it stops from. Its goroutines end
// when from ends, or with Stop, which waits for them.
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

// receive hands each event to the workers, and in its order to send.
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
			jobs <- j // has room for as many as the queue, and one for each worker
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

// do makes the result of one event. A panic is handled as in the goroutine of client-go that
// decodes a watch: unless the process ends, the watch does.
func (w *orderedWatch) do(j *job) {
	defer utilruntime.HandleCrash()
	defer close(j.done)
	j.done <- w.each(j.event)
}

// send sends the results, up to the first event that has none.
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

// Stop implements watch.Interface. It waits until the function has returned from the last event,
// so that nothing of a watch is left when the informer that has stopped it ends.
func (w *orderedWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.from.Stop()
	})
	w.running.Wait()
}

// ResultChan implements watch.Interface.
func (w *orderedWatch) ResultChan() <-chan watch.Event { return w.results }
