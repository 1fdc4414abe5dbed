// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// mappedWatch passes the events of another watch through a function. Unlike
// watch.Filter it ends with Stop, even if an event was not received.
type mappedWatch struct {
	from    watch.Interface
	results chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

// mapEvents returns a watch that owns from: stopping it stops from.
func mapEvents(from watch.Interface, each func(watch.Event) watch.Event) watch.Interface {
	w := &mappedWatch{from: from, results: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(each) // until from ends, or Stop
	return w
}

func (w *mappedWatch) run(each func(watch.Event) watch.Event) {
	defer close(w.results)
	for event := range w.from.ResultChan() {
		select {
		case w.results <- each(event):
		case <-w.stopped:
			return
		}
	}
}

// Stop implements watch.Interface.
func (w *mappedWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.from.Stop()
	})
}

// ResultChan implements watch.Interface.
func (w *mappedWatch) ResultChan() <-chan watch.Event { return w.results }
