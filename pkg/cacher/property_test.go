// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/pkg/cacher"
)

// seedVariable repeats a failure with the seed that it printed.
const seedVariable = "TARN_CACHER_SEED"

func seedOf(t *testing.T) uint64 {
	seed := variable.Number(t, seedVariable, rand.Uint64())
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// TestAgainstModel runs writers, watchers and readers of all kinds on a Cacher whose storage fails
// now and then. It compares what they see with that storage.
func TestAgainstModel(t *testing.T) {
	supportProgress(t)
	for _, variant := range []struct {
		name    string
		streams bool
		options cacher.Options
	}{
		{"decoded", false, cacher.Options{}},
		{"flat", true, cacher.Options{Decoded: ptr.To(false)}},
		{"short history", true, cacher.Options{HistoryEvents: 60}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			seed := seedOf(t)
			synctest.Test(t, func(t *testing.T) {
				s := newMemoryStorage()
				s.streams = variant.streams
				w := &world{storage: s, seed: seed, cacher: startOn(t, s, indexed, func(s *setup) { s.options = variant.options })}
				w.run(t)
			})
		})
	}
}

// startOn starts a Cacher in front of a storage in memory. Both end with the test.
func startOn(t testing.TB, s *memoryStorage, options ...option) *cacher.Cacher {
	t.Helper()
	t.Cleanup(s.forwards.Wait)
	return startTarn(t, newSetup(options...), s).(*cacher.Cacher)
}

// world is a run with everything that is in it.
type world struct {
	storage *memoryStorage
	cacher  *cacher.Cacher
	seed    uint64

	mu        sync.Mutex // guards what follows
	observers []*observer
	failures  []error
	answered  map[string]int // lists, by kind
}

const (
	writing       = 90 * time.Second // of virtual time
	writers       = 4
	watchClients  = 60
	readClients   = 6
	writerPause   = 2 * time.Second // at most
	settlingDelay = 20 * time.Minute
)

func (w *world) run(t *testing.T) {
	w.answered = map[string]int{}
	// Writers, readers and faults end first; watchers have time to catch up.
	busy, cancel := context.WithTimeout(t.Context(), writing)
	defer cancel()
	watching, end := context.WithCancel(t.Context())
	defer end()
	var busyWith, clients sync.WaitGroup
	random := uint64(0)
	start := func(wait *sync.WaitGroup, f func(*rand.Rand)) {
		random++
		r := rand.New(rand.NewPCG(w.seed, random))
		wait.Go(func() { f(r) })
	}
	for range writers {
		start(&busyWith, func(r *rand.Rand) { w.write(busy, r) })
	}
	for range readClients {
		start(&busyWith, func(r *rand.Rand) { w.read(busy, r) })
	}
	start(&busyWith, func(r *rand.Rand) { w.disturb(busy, r) })
	for range watchClients {
		start(&clients, func(r *rand.Rand) { w.watch(watching, busy, r) })
	}
	busyWith.Wait()
	time.Sleep(settlingDelay)
	if err := w.cacher.CheckConsistency(t.Context()); err != nil {
		t.Error(err)
	}
	end()
	clients.Wait()
	w.judge(t)
}

// judge reports what has gone wrong.
func (w *world) judge(t *testing.T) {
	events := 0
	for _, o := range w.observers {
		events += len(o.events)
	}
	t.Logf("%d changes, %d watches with %d events, reads %v", len(w.storage.changes(0)), len(w.observers), events, w.answered)
	for _, err := range w.failures {
		t.Error(err)
	}
	if len(w.storage.changes(0)) < 100 || events < 1000 || w.answered["list"] < 100 {
		t.Error("too little happened to show anything")
	}
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) < 10 {
		w.failures = append(w.failures, err)
	}
}

// pause waits for a random time; it returns false when ctx has ended.
func pause(ctx context.Context, r *rand.Rand, atMost time.Duration) bool {
	select {
	case <-time.After(time.Duration(r.Int64N(int64(atMost)))):
		return true
	case <-ctx.Done():
		return false
	}
}

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func randomNamespace(r *rand.Rand) string { return oneOf(r, "a", "b", "b-c") }
func randomName(r *rand.Rand) string      { return fmt.Sprintf("pod-%d", r.IntN(12)) }
func randomNode(r *rand.Rand) string      { return oneOf(r, "", "one", "two") }
func randomColor(r *rand.Rand) string     { return oneOf(r, "red", "green") }

func randomPod(r *rand.Rand) *example.Pod {
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: randomNamespace(r), Name: randomName(r), UID: "uid"}}
	if r.IntN(4) > 0 {
		pod.Labels = map[string]string{"color": randomColor(r)}
	}
	pod.Spec.NodeName = randomNode(r)
	pod.Annotations = map[string]string{"n": strconv.Itoa(r.IntN(1000))}
	return pod
}

// write writes in bursts.
func (w *world) write(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, writerPause) {
		for range 1 + r.IntN(oneOf(r, 1, 1, 1, 1, 1, 60)) {
			switch r.IntN(8) {
			case 0, 1:
				w.storage.remove(podKey(randomNamespace(r), randomName(r)))
			case 2:
				w.storage.bump()
			default:
				w.storage.put(randomPod(r))
			}
		}
	}
}

// disturb lets the storage fail.
func (w *world) disturb(ctx context.Context, r *rand.Rand) {
	defer w.storage.resume()
	defer w.storage.failLists(nil)
	for pause(ctx, r, 20*time.Second) {
		switch r.IntN(6) {
		case 0:
			w.storage.breakWatches(nil)
		case 1:
			w.storage.breakWatches(apierrors.NewResourceExpired("injected"))
		case 2:
			w.storage.failLists(errInjected)
			w.storage.breakWatches(apierrors.NewResourceExpired("injected"))
			pause(ctx, r, 5*time.Second)
			w.storage.failLists(nil)
		case 3:
			w.storage.pause()
			pause(ctx, r, 10*time.Second)
			w.storage.resume()
		case 4:
			w.storage.compact(w.storage.now() - min(w.storage.now(), r.Uint64N(100)))
		case 5: // compaction behind the back of the cache
			w.storage.pause()
			pause(ctx, r, 5*time.Second)
			w.storage.compact(w.storage.now())
			w.storage.resume()
		}
	}
}

// randomSelection returns a key and a predicate for it.
func randomSelection(r *rand.Rand) (key string, p storage.SelectionPredicate) {
	key, p = podPrefix, storage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), GetAttrs: podAttributes, IndexFields: []string{"spec.nodeName"},
	}
	set := fields.Set{}
	switch r.IntN(5) {
	case 0:
		key += randomNamespace(r) + "/"
	case 1:
		set["metadata.namespace"] = randomNamespace(r)
	case 2:
		set["metadata.name"] = randomName(r)
	case 3:
		namespace := randomNamespace(r)
		key += namespace + "/"
		set["metadata.namespace"], set["metadata.name"] = namespace, randomName(r)
	}
	if r.IntN(3) == 0 {
		set["spec.nodeName"] = randomNode(r)
	}
	if len(set) > 0 {
		p.Field = set.AsSelector()
	}
	if r.IntN(3) == 0 {
		p.Label = labels.SelectorFromSet(labels.Set{"color": randomColor(r)})
	}
	return key, p
}

// watch watches with one selection, again and again, until ctx ends.
func (w *world) watch(ctx, busy context.Context, r *rand.Rand) {
	key, p := randomSelection(r)
	p.AllowWatchBookmarks = r.IntN(4) > 0
	var o *observer
	for {
		opts := storage.ListOptions{Predicate: p, Recursive: true}
		var resumes bool
		if o != nil {
			opts.ResourceVersion, resumes = o.last()
		}
		if !resumes {
			w.begin(r, &opts)
		}
		o = &observer{key: key, opts: opts, called: w.storage.now()}
		open, err := w.observe(ctx, busy, r, o)
		if err == nil {
			err = o.check(w.storage, open)
		}
		if err != nil {
			w.fail(fmt.Errorf("watch of %s from %q (%+v): %w", key, opts.ResourceVersion, p, err))
		}
		w.mu.Lock()
		w.observers = append(w.observers, o)
		w.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
	}
}

// begin chooses where a watch begins.
func (w *world) begin(r *rand.Rand, opts *storage.ListOptions) {
	now := w.storage.now()
	switch r.IntN(7) {
	case 0:
		opts.ResourceVersion = ""
	case 1:
		opts.ResourceVersion = "0"
	case 2:
		opts.ResourceVersion = fmt.Sprint(now - min(now-1, r.Uint64N(200)))
	case 3:
		opts.ResourceVersion = fmt.Sprint(now + r.Uint64N(20))
	case 4:
		opts.SendInitialEvents = ptr.To(false)
		opts.ResourceVersion = oneOf(r, "", "0")
	default:
		opts.SendInitialEvents = ptr.To(true)
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		opts.ResourceVersion = oneOf(r, "", "0", fmt.Sprint(now))
	}
}

// observe watches once. It returns whether the watch was open, and read, until ctx ended.
// While there is something to write a watch may end early: by its deadline, or by Stop.
func (w *world) observe(ctx, busy context.Context, r *rand.Rand, o *observer) (open bool, err error) {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.IntN(4) == 0 && busy.Err() == nil {
		own, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Minute))))
		defer cancel()
	}
	result, err := w.cacher.Watch(own, o.key, o.opts)
	if err != nil {
		pause(ctx, r, time.Second)
		if own.Err() != nil || tellsWhatToDo(err) {
			err = nil
		}
		return false, err
	}
	defer result.Stop()
	reading, stopped := newPace(r), false
	for {
		reading.wait(own, r)
		event, more := <-result.ResultChan()
		if more && event.Type == watch.Error && errors.Is(own.Err(), context.DeadlineExceeded) {
			continue // it is told why it did not begin
		}
		if !more {
			pause(ctx, r, time.Second)
			return ctx.Err() != nil && !stopped && !errors.Is(own.Err(), context.DeadlineExceeded), nil
		}
		o.events = append(o.events, event)
		if r.IntN(500) == 0 && busy.Err() == nil {
			stopped = true
			result.Stop()
		}
	}
}

// pace is how slow a watcher reads.
type pace struct {
	rests   int // once in so many events
	atMost  time.Duration
	notEven bool // it does not even begin for a while
}

func newPace(r *rand.Rand) *pace {
	return oneOf(r,
		&pace{}, &pace{}, &pace{},
		&pace{rests: 1, atMost: 100 * time.Millisecond},
		&pace{rests: 20, atMost: 5 * time.Second},
		&pace{rests: 100, atMost: 30 * time.Second},
		&pace{notEven: true, atMost: writing},
	)
}

func (p *pace) wait(ctx context.Context, r *rand.Rand) {
	if p.notEven || p.rests > 0 && r.IntN(p.rests) == 0 {
		p.notEven = false
		pause(ctx, r, p.atMost)
	}
}
