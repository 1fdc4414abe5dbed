// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	serversharding "k8s.io/apiserver/pkg/sharding"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/cover"
	"github.com/tarn-dev/tarn/internal/relist"
)

// pods is an API server that has Pods.
type pods struct {
	mu        sync.Mutex // guards what follows
	random    *rand.Rand
	refuse    error                  // of the watch of all namespaces
	sends     *apierrors.StatusError // what such a watch brings, instead of events
	present   map[string]bool        // the Pods that there are, by namespace and name
	slow      time.Duration          // that a request takes that fails
	log       []watch.Event
	compacted int                    // versions up to it are forgotten
	fails     map[string]error       // requests, by namespace
	selects   bool                   // it knows shard selectors
	longest   int                    // the selector that a proxy takes; zero for all
	sent      int                    // the events of other namespaces that were sent to wide watches
	watches   map[*podWatch]struct{} // the open ones
	requests  map[string]int         // by namespace
}

// podWatch is a watch of a namespace, or of all.
type podWatch struct {
	*watch.FakeWatcher
	of        *pods
	namespace string
	selector  sharding.Selector // nil for all
	from      int
}

// Stop implements watch.Interface.
func (w *podWatch) Stop() { w.of.end(func(other *podWatch) bool { return other == w }) }

func newPods(random *rand.Rand) *pods {
	s := &pods{random: random, present: map[string]bool{}, fails: map[string]error{}, watches: map[*podWatch]struct{}{}, requests: map[string]int{}}
	s.write("other", "first")
	return s
}

func (s *pods) at(version int) (namespaces map[string]map[string]*corev1.Pod) {
	namespaces = map[string]map[string]*corev1.Pod{}
	for _, e := range s.log[:version] {
		pod := e.Object.(*corev1.Pod)
		if namespaces[pod.Namespace] == nil {
			namespaces[pod.Namespace] = map[string]*corev1.Pod{}
		}
		if namespaces[pod.Namespace][pod.Name] = pod; e.Type == watch.Deleted {
			delete(namespaces[pod.Namespace], pod.Name)
		}
	}
	return namespaces
}

// write changes an object: it is made, changed or deleted.
func (s *pods) write(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := watch.Event{Type: watch.Added, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, ResourceVersion: strconv.Itoa(len(s.log) + 1),
	}}}
	if s.present[namespace+"/"+name] {
		e.Type = []watch.EventType{watch.Modified, watch.Deleted}[s.random.IntN(2)]
	}
	s.present[namespace+"/"+name] = e.Type != watch.Deleted
	s.log = append(s.log, e)
	for w := range s.watches {
		w.send(e)
	}
}

// restore forgets what was written after a version, as a restore of etcd does.
func (s *pods) restore(version int) {
	s.mu.Lock()
	s.log, s.present = s.log[:version], map[string]bool{}
	for namespace, in := range s.at(version) {
		for name := range in {
			s.present[namespace+"/"+name] = true
		}
	}
	s.mu.Unlock()
	s.end(func(*podWatch) bool { return true })
}

func (w *podWatch) send(e watch.Event) {
	pod := e.Object.(*corev1.Pod)
	if version, err := strconv.Atoi(pod.ResourceVersion); err == nil && version > w.from && (w.namespace == "" || w.namespace == pod.Namespace) && selected(w.selector, pod) {
		w.Action(e.Type, pod.DeepCopy())
		if pod.Namespace == "other" {
			w.of.sent++
		}
	}
}

// selectorOf is the shard selector of a request, as the API server takes it.
func (s *pods) selectorOf(opts metav1.ListOptions) sharding.Selector {
	if !s.selects || opts.ShardSelector == "" {
		return nil
	}
	selector, err := serversharding.Parse(opts.ShardSelector)
	if err != nil {
		panic(err)
	}
	return selector
}

func selected(by sharding.Selector, pod *corev1.Pod) bool {
	if by == nil {
		return true
	}
	matches, err := by.Matches(pod)
	return err == nil && matches
}

// bookmarks sends a bookmark to each watch.
func (s *pods) bookmarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(len(s.log))}})
	}
}

// end ends watches: all, or those that are picked.
func (s *pods) end(picked func(*podWatch) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if picked(w) {
			w.FakeWatcher.Stop()
			delete(s.watches, w)
		}
	}
}

// compact forgets all versions, and tells the watches.
func (s *pods) compact() {
	s.mu.Lock()
	s.compacted = len(s.log)
	for w := range s.watches {
		w.Action(watch.Error, &apierrors.NewResourceExpired("compacted").ErrStatus)
	}
	s.mu.Unlock()
	s.end(func(*podWatch) bool { return true })
}

// open returns how many watches are open, of all namespaces and of single ones.
func (s *pods) open() (wide, single int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.namespace == "" {
			wide++
		} else {
			single++
		}
	}
	return wide, single
}

func (s *pods) fail(namespace string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails[namespace] = err
}

func (s *pods) asked(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[namespace]
}

// podSource is a source of a namespace, or of all.
type podSource struct {
	*pods
	namespace string
}

func (s podSource) Example() runtime.Object              { return &corev1.Pod{} }
func (s podSource) Finish(event watch.Event) watch.Event { return event }

// answer counts a request, and returns the error with which it fails.
func (s podSource) answer() error {
	s.mu.Lock()
	s.requests[s.namespace]++
	err, slow := s.fails[s.namespace], s.slow
	s.mu.Unlock()
	if err != nil {
		time.Sleep(slow)
	}
	return err
}

// List returns a state that is as new as asked for.
func (s podSource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if err := s.tooLong(opts, s.longest); err != nil {
		return nil, err
	}
	s.mu.Lock()
	takes := time.Duration(s.random.IntN(50)) * time.Millisecond
	s.mu.Unlock()
	time.Sleep(takes)
	if err := s.answer(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version := len(s.log)
	if least, err := strconv.Atoi(opts.ResourceVersion); err == nil {
		if least = max(least, s.compacted, min(1, version)); least > version {
			return nil, apierrors.NewTimeoutError("too large resource version", 1)
		}
		version = least + s.random.IntN(version-least+1)
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(version)}}
	for namespace, in := range s.at(version) {
		if s.namespace == "" || s.namespace == namespace {
			for _, name := range slices.Sorted(maps.Keys(in)) {
				if selected(s.selectorOf(opts), in[name]) {
					list.Items = append(list.Items, *in[name].DeepCopy())
				}
			}
		}
	}
	return list, ctx.Err()
}

// tooLong returns the error of a proxy that takes a selector of so many bytes; zero is for any.
func (s podSource) tooLong(opts metav1.ListOptions, longest int) error {
	if longest > 0 && len(opts.ShardSelector) > longest {
		return apierrors.NewGenericServerResponse(http.StatusRequestURITooLong, "get", schema.GroupResource{}, "", "", 0, false)
	}
	return nil
}

func (s podSource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if err := s.tooLong(opts, s.longest/2); err != nil { // which has more beside it
		return nil, err
	}
	if err := s.answer(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespace == "" && s.refuse != nil {
		return nil, s.refuse
	}
	from, err := strconv.Atoi(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if from < s.compacted {
		return nil, apierrors.NewResourceExpired("too old")
	}
	w := &podWatch{FakeWatcher: watch.NewFakeWithChanSize(100_000, false), of: s.pods, namespace: s.namespace, selector: s.selectorOf(opts), from: from}
	for _, e := range s.log[min(from, len(s.log)):] {
		w.send(e)
	}
	if s.namespace == "" && s.sends != nil {
		w.Error(&s.sends.ErrStatus)
	}
	s.watches[w] = struct{}{}
	context.AfterFunc(ctx, w.Stop)
	if opts.TimeoutSeconds != nil {
		time.AfterFunc(time.Duration(*opts.TimeoutSeconds)*time.Second, w.Stop)
	}
	return w, nil
}

// reader follows a namespace as an informer does, and complains about what does not follow.
type reader struct {
	namespace string
	failures  *Failures
	lw        *listWatch
	gate      chan struct{} // no event passes while it is full
	again     chan struct{} // has the reader watch again
	anew      chan struct{} // has it list again, in another context

	mu      sync.Mutex // guards what follows
	pods    map[string]string
	version int
	recent  bool // the next list must be the newest
	lists   int
	wrong   []string
}

func newReader(w *wideWatch, namespace string) *reader {
	failures := &Failures{}
	source := failures.Source(w.in(namespace, failures.Client(http.DefaultClient)))
	return &reader{namespace: namespace, failures: failures, lw: New(source, Options{
		Bookmarks: true, Unstreamed: true, IdleTimeout: 3 * time.Minute, Cut: func(time.Duration) {},
	}).(*listWatch), gate: make(chan struct{}, 1),
		again: make(chan struct{}, 1), anew: make(chan struct{}, 1)}
}

func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.follow(ctx)
	}
}

// from returns the version that a list has at least.
func (r *reader) from() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent {
		return ""
	}
	return strconv.Itoa(r.version)
}

// follow follows until it has to begin anew.
func (r *reader) follow(ctx context.Context) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stopped := make(chan struct{})
	defer close(stopped)
	go func() { // also while it has joined
		select {
		case <-r.anew:
			end(errAnew)
		case <-stopped:
		}
	}()
	for ctx.Err() == nil {
		joined, err := r.lw.Follow(ctx, r.from(), r)
		if !joined && err == nil {
			err = r.list(ctx)
			for err == nil && ctx.Err() == nil {
				err = r.watch(ctx)
			}
		}
		r.failed(err)
		if err != nil && !errors.As(err, new(relist.Error)) {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

var errAnew = errors.New("it lists anew")

// failed looks whether the server does not have the version.
func (r *reader) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent = r.recent || apierrors.IsTimeout(err)
}

func (r *reader) list(ctx context.Context) error {
	listed, err := r.lw.ListWithContext(ctx, metav1.ListOptions{ResourceVersion: r.from()})
	if err != nil {
		return err
	}
	return replace(r, listed)
}

// Replace implements Store.
func (r *reader) Replace(pods []any, version string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent {
		r.recent, r.version = false, 0
	}
	r.pods = map[string]string{}
	for _, pod := range pods {
		r.pods[pod.(*corev1.Pod).Name] = pod.(*corev1.Pod).ResourceVersion
	}
	r.lists++
	r.failures.Listed()
	r.reach(version, 0)
	return nil
}

// reach notes the version that was reached, which must be newer by so much.
func (r *reader) reach(version string, by int) {
	next, err := strconv.Atoi(version)
	if err != nil || next < r.version+by {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %q after %d", r.namespace, version, r.version))
	}
	r.version = next
}

func (r *reader) watch(ctx context.Context) error {
	w, err := r.lw.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: r.from(), TimeoutSeconds: ptr.To[int64](400)})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.again:
			return nil
		case event, open := <-w.ResultChan():
			if !open {
				time.Sleep(time.Millisecond)
				return nil
			}
			if err := store(ctx, r, event); err != nil {
				return err
			}
			if r.from() == "" {
				return errors.New("the version went back")
			}
		}
	}
}

// Add implements Store.
func (r *reader) Add(obj any) error { return r.take(watch.Added, obj) }

// Update implements Store.
func (r *reader) Update(obj any) error { return r.take(watch.Modified, obj) }

// Delete implements Store.
func (r *reader) Delete(obj any) error { return r.take(watch.Deleted, obj) }

// Resync implements Store.
func (r *reader) Resync() error { return nil }

// Bookmark implements Store.
func (r *reader) Bookmark(version string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reached, err := strconv.Atoi(version); err == nil && reached < r.version {
		r.recent = true
		return nil
	}
	r.reach(version, 0)
	return nil
}

func (r *reader) take(t watch.EventType, obj any) error {
	pod := obj.(*corev1.Pod)
	r.gate <- struct{}{}
	<-r.gate
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.pods[pod.Name]; is != (t != watch.Added) || pod.Namespace != r.namespace {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %s of %s/%s", r.namespace, t, pod.Namespace, pod.Name))
	}
	r.reach(pod.ResourceVersion, 1)
	if r.pods[pod.Name] = pod.ResourceVersion; t == watch.Deleted {
		delete(r.pods, pod.Name)
	}
	return nil
}

// now returns the versions of the Pods that the reader has.
func (r *reader) now() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pods)
}

// wideWorld is a server, and readers of namespaces that one watch may serve.
type wideWorld struct {
	*pods
	dice       *rand.Rand // of the test
	wide       *wideWatch
	ctx        context.Context
	namespaces int // that there are
	running    sync.WaitGroup
	readers    map[string]*reader
	stops      map[string]func()
}

// inWorld runs a test in virtual time.
func inWorld(t *testing.T, seed uint64, namespaces int, test func(*GomegaWithT, *wideWorld)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		w := &wideWorld{
			pods: newPods(rand.New(rand.NewPCG(seed, 1))), dice: rand.New(rand.NewPCG(seed, 2)), ctx: ctx, namespaces: namespaces, readers: map[string]*reader{}, stops: map[string]func(){},
		}
		w.wide = newWideWatch(wideOptions{
			Source: podSource{w.pods, ""}, Part: func(namespace string, _ *http.Client) (Source, error) { return podSource{w.pods, namespace}, nil }, Silence: 3 * time.Minute, Logger: logr.Discard(),
			Survey: func(context.Context) (int, bool, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.namespaces, w.selects, nil
			},
			Run: func(f func(context.Context)) bool {
				w.running.Go(func() { f(ctx) })
				return ctx.Err() == nil
			},
		})
		defer w.running.Wait()
		defer stop()
		test(NewWithT(t), w)
	})
}

func (w *wideWorld) add(namespaces ...string) {
	for _, namespace := range namespaces {
		ctx, stop := context.WithCancel(w.ctx)
		r := newReader(w.wide, namespace)
		w.readers[namespace], w.stops[namespace] = r, stop
		w.running.Go(func() { r.run(ctx) })
	}
}

// join adds namespaces, and ends the watches of those that were too few for a wide one, as their time-outs do.
func (w *wideWorld) join(g *GomegaWithT, namespaces ...string) {
	g.THelper()
	w.add(namespaces...)
	w.settled(g)
	w.end(func(p *podWatch) bool { return p.namespace != "" })
	w.settled(g)
}

func (w *wideWorld) remove(namespace string) {
	w.stops[namespace]()
	delete(w.readers, namespace)
	delete(w.stops, namespace)
}

// settled checks that all readers have what the server has.
func (w *wideWorld) settled(g *GomegaWithT) {
	g.THelper()
	time.Sleep(40 * time.Second)
	synctest.Wait()
	w.mu.Lock()
	state := w.at(len(w.log))
	w.mu.Unlock()
	for namespace, r := range w.readers {
		want := map[string]string{}
		for name, pod := range state[namespace] {
			want[name] = pod.ResourceVersion
		}
		g.Expect(r.now()).To(Equal(want), namespace)
		g.Expect(r.wrong).To(BeEmpty())
	}
}

// selection is the cover of the wide watch.
func (w *wideWorld) selection() cover.Cover {
	w.wide.mu.Lock()
	defer w.wide.mu.Unlock()
	return w.wide.run.cover
}

func namespacesUpTo(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("ns-", i))
	}
	return names
}

var errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))

func TestManyNamespacesHaveOneWatch(t *testing.T) {
	inWorld(t, 1, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		for _, namespace := range all {
			w.write(namespace, "a")
		}
		w.add(all[:fewestNamespaces-1]...)
		w.settled(g)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, fewestNamespaces - 1}), "few")

		w.add(all[fewestNamespaces-1:]...)
		w.settled(g)
		wide, _ = w.open()
		g.Expect(wide).To(Equal(1), "many")
		w.end(func(p *podWatch) bool { return p.namespace != "" }) // as their time-outs do
		w.settled(g)
		wide, single = w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{1, 0}), "the first ones as well")

		before := w.asked(all[0])
		for _, namespace := range all {
			w.write(namespace, "b")
		}
		w.end(func(*podWatch) bool { return true })
		for _, namespace := range all {
			w.write(namespace, "c")
		}
		w.settled(g)
		g.Expect(w.asked(all[0])).To(Equal(before), "no request of a part when the wide watch goes on")

		for _, namespace := range all[2:] {
			w.remove(namespace)
		}
		w.write(all[0], "d")
		w.settled(g)
		wide, single = w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 2}), "few again")
		g.Expect(w.readers[all[0]].lists).To(BeNumerically("<=", 3), "by itself, to join, and by itself again")
		w.add(all[2:]...)
		w.settled(g)
		wide, _ = w.open()
		g.Expect(wide).To(Equal(1), "and many again")
	})
}

// TestWideWatchBeginsWhileAnotherOneEnds: namespaces that come when too few were left do not join what ends.
func TestWideWatchBeginsWhileAnotherOneEnds(t *testing.T) {
	for seed := range uint64(20) {
		inWorld(t, seed, 20, func(g *GomegaWithT, w *wideWorld) {
			all := namespacesUpTo(20)
			w.add(all[:fewestNamespaces]...)
			time.Sleep(time.Duration(w.dice.IntN(60)) * time.Millisecond) // it lists, or watches
			for _, namespace := range all[:fewestNamespaces] {
				w.remove(namespace)
			}
			synctest.Wait()
			w.add(all[fewestNamespaces:]...)
			w.settled(g)
			wide, _ := w.open()
			g.Expect(wide).To(Equal(1), "seed %d", seed)
		})
	}
}

func TestWideWatchIsGivenUpAndTriedAgain(t *testing.T) {
	inWorld(t, 2, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		w.fail("", errForbidden)
		w.add(all...)
		w.settled(g)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 10}), "not allowed")
		g.Expect(w.asked("")).To(Equal(1))

		w.fail("", nil)
		time.Sleep(2 * time.Minute)
		w.end(func(*podWatch) bool { return true })
		w.settled(g)
		wide, single = w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{1, 0}), "allowed")

		w.fail("", errForbidden)
		w.write(all[3], "a")
		lists := w.readers[all[3]].lists
		w.end(func(*podWatch) bool { return true })
		w.write(all[3], "b")
		time.Sleep(10 * time.Second)
		w.settled(g)
		wide, single = w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 10}), "not any more")
		g.Expect(w.readers[all[3]].lists).To(Equal(lists+1), "a part lists once when the wide watch has ended")
	})
}

func TestWideWatchIsNotTakenForAFewOfMany(t *testing.T) {
	inWorld(t, 3, 100, func(g *GomegaWithT, w *wideWorld) {
		w.add(namespacesUpTo(20)...)
		w.settled(g)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 20}), "20 of 100")
		g.Expect(w.asked("")).To(BeZero(), "no list of all")
		w.namespaces = 80
		for i := range 20 {
			w.add(fmt.Sprint("more-", i))
		}
		for range 2 { // as their time-outs do
			w.settled(g)
			w.end(func(p *podWatch) bool { return p.namespace != "" })
		}
		w.settled(g)
		wide, single = w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{1, 0}), "40 of 80")

		for i := range 2 * tolerated {
			w.write("other", fmt.Sprint(i))
		}
		w.write("ns-1", "a")
		w.settled(g)
		w.bookmarks()
		w.settled(g)
		wide, single = w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 40}), "others are busy")
	})
}

// TestWideWatchThatTheServerSelects: with shard selectors one watch is taken for a few of many namespaces, and brings nothing of others.
func TestWideWatchThatTheServerSelects(t *testing.T) {
	inWorld(t, 12, 10_000, func(g *GomegaWithT, w *wideWorld) {
		w.selects = true
		all := namespacesUpTo(60)
		for i := range 3000 {
			w.write(all[i%60], fmt.Sprint(i))
			w.write("other", fmt.Sprint(i))
		}
		w.add(all[:20]...)
		w.settled(g)
		g.Expect(w.asked("")).To(BeNumerically("<=", 3), "a list, and a watch or two")
		before := w.asked("")
		w.add(all[20:40]...)
		w.settled(g)
		g.Expect(w.asked("")).To(BeNumerically("<=", before+2), "what comes together is covered together")
		w.add(all[40:]...)
		w.settled(g)
		w.end(func(p *podWatch) bool { return p.namespace != "" }) // as their time-outs do
		for _, namespace := range append(all, "other") {
			w.write(namespace, "later")
		}
		w.settled(g)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{1, 0}))

		for _, namespace := range all[10:] {
			w.remove(namespace)
		}
		before = w.asked("")
		w.end(func(*podWatch) bool { return true })
		w.settled(g)
		for _, namespace := range all {
			g.Expect(w.selection().Has(namespace)).To(Equal(w.readers[namespace] != nil), "%s, when the watch has begun again", namespace)
		}
		g.Expect(w.asked("")).To(Equal(before+1), "it has gone on")
		w.bookmarks()
		w.settled(g)
		w.mu.Lock()
		defer w.mu.Unlock()
		g.Expect(w.sent).To(BeZero(), "events of others")
	})
}

// TestNamespaceThatCameBackIsListed, if the list of all is older than what it has missed meanwhile.
func TestNamespaceThatCameBackIsListed(t *testing.T) {
	for seed := range uint64(20) {
		inWorld(t, seed, 20, func(g *GomegaWithT, w *wideWorld) {
			w.selects = true
			all := namespacesUpTo(20)
			for _, namespace := range all {
				w.write(namespace, "a")
			}
			w.add(all...)
			time.Sleep(gathering + time.Millisecond) // the list of all is under way
			w.remove(all[0])
			time.Sleep(time.Second)
			w.write(all[0], "b")
			w.write(all[0], "c")
			w.write(all[1], "c") // the watch goes on
			time.Sleep(time.Second)
			w.add(all[0])
			w.settled(g)
		})
	}
}

// TestNamespacesThatComeWhileTheServerIsAway list by themselves, or with the next attempt.
func TestNamespacesThatComeWhileTheServerIsAway(t *testing.T) {
	inWorld(t, 14, 20, func(g *GomegaWithT, w *wideWorld) {
		w.selects = true
		all := namespacesUpTo(20)
		w.add(all[:10]...)
		w.settled(g)
		w.fail("", apierrors.NewInternalError(errors.New("broken")))
		w.end(func(*podWatch) bool { return true })
		for _, namespace := range all[10:] {
			time.Sleep(time.Second)
			w.write(namespace, "a")
			w.add(namespace)
			time.Sleep(100 * time.Millisecond)
			r := w.readers[namespace]
			r.mu.Lock()
			g.Expect(r.lists).To(Equal(1), namespace)
			r.mu.Unlock()
		}
		w.fail("", nil)
		w.settled(g)
	})
}

// TestNamespacesThatGoOnComing do not hold up each other.
func TestNamespacesThatGoOnComing(t *testing.T) {
	inWorld(t, 15, 250, func(g *GomegaWithT, w *wideWorld) {
		w.selects = true
		for i, namespace := range namespacesUpTo(250) {
			w.write(namespace, "a")
			w.add(namespace)
			time.Sleep(50 * time.Millisecond)
			if i >= 100 {
				g.Expect(w.readers[fmt.Sprint("ns-", i-60)].now()).To(HaveLen(1), "three seconds after ns-%d has come", i-60)
			}
		}
		w.settled(g)
	})
}

// TestNamespacesThatLeaveASelectingServer: what has left is no reason to give up the wide watch, which is begun anew without it.
func TestNamespacesThatLeaveASelectingServer(t *testing.T) {
	inWorld(t, 16, 400, func(g *GomegaWithT, w *wideWorld) {
		w.selects = true
		all := namespacesUpTo(20)
		for i := range 4 * tolerated {
			w.write(all[10+i%10], fmt.Sprint(i))
		}
		w.add(all...)
		time.Sleep(time.Second)
		for _, namespace := range all[10:] {
			w.remove(namespace)
		}
		w.settled(g) // the list is judged
		for i := range 2 * tolerated {
			w.write(all[10+i%10], fmt.Sprint("later-", i))
		}
		w.bookmarks()
		w.settled(g)
		wide, _ := w.open()
		g.Expect(wide).To(Equal(1))
		g.Expect(w.selection().Has(all[15])).To(BeFalse())
	})
}

// TestManyNamespacesOfASelectingServer have more hashes than a cover has ranges. Namespaces come and go beside writes.
func TestManyNamespacesOfASelectingServer(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	inWorld(t, seed, 450, func(g *GomegaWithT, w *wideWorld) {
		w.selects = true
		all := namespacesUpTo(450)
		w.wide.most = 100 // fewer ranges than namespaces
		w.add(all[:150]...)
		for range 20 {
			for range 20 {
				w.write(all[w.dice.IntN(len(all))], fmt.Sprint(w.dice.IntN(5)))
				if namespace := all[w.dice.IntN(len(all))]; w.readers[namespace] == nil {
					w.add(namespace)
				} else {
					w.remove(namespace)
				}
			}
			time.Sleep(time.Duration(w.dice.IntN(2000)) * time.Millisecond)
		}
		w.settled(g)
		wide, _ := w.open()
		g.Expect(wide).To(Equal(1))
	})
}

// TestAFewOfManyMoreNamespaces: a cover has few ranges, so it may bring too much.
func TestAFewOfManyMoreNamespaces(t *testing.T) {
	inWorld(t, 17, 1_000_000, func(g *GomegaWithT, w *wideWorld) {
		w.selects = true
		for range 600 {
			w.add(fmt.Sprintf("%x", w.dice.Uint64()))
		}
		w.settled(g)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 600}))
		g.Expect(w.asked("")).To(BeZero())
	})
}

// TestSelectorsThatAreTooLong for a proxy become shorter.
func TestSelectorsThatAreTooLong(t *testing.T) {
	inWorld(t, 18, 400, func(g *GomegaWithT, w *wideWorld) {
		w.selects, w.longest = true, 8<<10
		w.add(namespacesUpTo(300)...)
		w.settled(g)
		wide, _ := w.open()
		g.Expect(wide).To(Equal(1))
		g.Expect(len(w.selection())).To(BeNumerically("<=", 64))
		g.Expect(w.asked("")).To(BeNumerically("<=", 6))
	})
}

// TestErrorsHaveNoQuery, which has the selector.
func TestErrorsHaveNoQuery(t *testing.T) {
	g, refused := NewWithT(t), errors.New("connection refused")
	err := withoutQuery(&url.Error{Op: "Get", URL: "https://server/pods?shardSelector=long", Err: refused})
	g.Expect(err).To(MatchError("Get https://server/pods: connection refused"))
	g.Expect(err).To(MatchError(refused))
	g.Expect(withoutQuery(errForbidden)).To(Equal(error(errForbidden)))
	g.Expect(withoutQuery(nil)).To(Succeed())
}

func TestMemberThatIsFarBehindGoesOnByItself(t *testing.T) {
	inWorld(t, 4, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		w.add(all...)
		w.settled(g)
		w.end(func(p *podWatch) bool { return p.namespace != "" })
		for range 6 {
			for i := range 1000 {
				w.write(all[1], fmt.Sprint(i))
			}
			w.settled(g)
		}
		_, single := w.open()
		g.Expect(single).To(BeZero(), "much, and not at once")
		slow := w.readers[all[2]]
		slow.gate <- struct{}{} // as a transform that hangs
		for i := range maxQueued>>10 + 1000 {
			w.write(all[2], fmt.Sprint(i))
		}
		w.write(all[3], "a")
		time.Sleep(time.Second)
		g.Expect(w.readers[all[3]].now()).To(HaveLen(1), "others do not wait")
		lists := slow.lists
		<-slow.gate
		w.settled(g)
		g.Expect(slow.lists).To(Equal(lists + 1))
		var wide int
		wide, single = w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{1, 1}))
	})
}

func TestIdleWideWatch(t *testing.T) {
	inWorld(t, 5, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		w.join(g, all...)
		w.bookmarks()
		requests := func() (made int) {
			for _, namespace := range all {
				made += w.asked(namespace)
			}
			return made
		}
		before := requests()
		time.Sleep(time.Hour)
		g.Expect(requests()).To(Equal(before), "the wide watch is silent, and is begun again when its time is over")
		w.wide.mu.Lock()
		g.Expect(w.wide.run.list).To(BeNil(), "nothing is held")
		w.wide.mu.Unlock()

		w.write(all[1], "a")
		w.settled(g)
		w.compact()
		w.settled(g)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{1, 0}), "versions are forgotten")
		w.settled(g)
	})
}

func TestWideWatchAfterAnOutage(t *testing.T) {
	inWorld(t, 6, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		for i := range 2000 {
			w.write(all[i%10], fmt.Sprint(i))
		}
		w.join(g, all...)
		for _, outage := range []time.Duration{5 * time.Second, 2 * time.Minute} {
			down := errors.New("connection refused")
			for _, namespace := range append(all, "") {
				w.fail(namespace, down)
			}
			w.end(func(*podWatch) bool { return true })
			time.Sleep(outage)
			for _, namespace := range append(all, "") {
				w.fail(namespace, nil)
			}
			w.write(all[1], "after")
			time.Sleep(15 * time.Second)
			w.settled(g)
			if outage > time.Minute {
				time.Sleep(20 * time.Minute)
				w.settled(g)
			}
			wide, single := w.open()
			g.Expect([]int{wide, single}).To(Equal([]int{1, 0}), "after %s", outage)
		}
	})
}

// TestMembersKnowWhyAWideWatchDoesNotGoOn: whoever waits for a namespace sees the cause, though nothing is asked of the namespace alone.
func TestMembersKnowWhyAWideWatchDoesNotGoOn(t *testing.T) {
	inWorld(t, 12, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		w.join(g, all...)
		before := w.asked(all[0])
		w.end(func(*podWatch) bool { return true })
		time.Sleep(time.Second)
		g.Expect(w.readers[all[0]].failures.Last()).To(BeNil(), "it goes on")
		down := errors.New("connection refused")
		w.fail("", down)
		w.end(func(*podWatch) bool { return true })
		time.Sleep(10 * time.Second)
		for _, namespace := range all {
			failure := w.readers[namespace].failures.Last()
			g.Expect(failure).NotTo(BeNil(), namespace)
			g.Expect(failure.Err).To(MatchError(down), namespace)
			g.Expect(failure.Attempts).To(BeNumerically(">", 3), namespace)
		}
		g.Expect(w.asked(all[0])).To(Equal(before))
		unlisted := w.readers[all[0]].failures
		unlisted.Forget()
		time.Sleep(20 * time.Second)
		g.Expect(unlisted.Last()).To(BeNil(), "its own list may be under way, and not fail")
		unlisted.Listed()
		w.fail("", nil)
		w.settled(g)
		for _, namespace := range all {
			g.Expect(w.readers[namespace].failures.Last()).To(BeNil(), namespace)
		}
		w.mu.Lock()
		w.sends = apierrors.NewInternalError(errors.New("broken"))
		w.mu.Unlock()
		w.end(func(*podWatch) bool { return true })
		time.Sleep(5 * time.Second)
		g.Expect(apierrors.IsInternalError(w.readers[all[0]].failures.Last().Err)).To(BeTrue(), "a watch that begins, and fails")
		w.mu.Lock()
		w.sends = nil
		w.mu.Unlock()
		w.settled(g)
		for _, namespace := range all {
			g.Expect(w.readers[namespace].failures.Last()).To(BeNil(), namespace)
		}
	})
}

func TestWideWatchThatIsRefusedSlowly(t *testing.T) {
	inWorld(t, 7, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		w.add(all...)
		w.settled(g)
		w.slow = 11 * time.Second
		w.fail("", errForbidden)
		w.end(func(*podWatch) bool { return true })
		w.write(all[1], "a")
		time.Sleep(3 * time.Minute)
		w.settled(g)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 10}))
	})
}

func TestWideWatchOfARestoredServer(t *testing.T) {
	inWorld(t, 8, 10, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(10)
		for i := range 300 {
			w.write(all[i%10], fmt.Sprint(i%40))
		}
		w.add(all...)
		w.settled(g)
		w.restore(100)
		w.write(all[1], "a")
		for range 3 { // the wide watch, and then those of namespaces, are told
			time.Sleep(time.Minute)
			w.bookmarks()
			time.Sleep(time.Second)
			wide, _ := w.open()
			g.Expect(wide).To(BeZero())
		}
		w.settled(g)
		time.Sleep(20 * time.Minute)
		for i := range 300 {
			w.write(all[i%10], fmt.Sprint(i%40))
		}
		w.settled(g)
		wide, _ := w.open()
		g.Expect(wide).To(Equal(1))
	})
}

func TestWideWatchNeedsVersions(t *testing.T) {
	inWorld(t, 9, 10, func(g *GomegaWithT, w *wideWorld) {
		w.restore(0)
		w.add(namespacesUpTo(10)...)
		time.Sleep(time.Second)
		wide, single := w.open()
		g.Expect([]int{wide, single}).To(Equal([]int{0, 10}))
	})
}

func TestWideWatchThatIsRefusedAfterItsList(t *testing.T) {
	for name, refused := range map[string]error{
		"forbidden": errForbidden, "expired": apierrors.NewResourceExpired("always"), "broken": apierrors.NewInternalError(errors.New("broken")),
	} {
		inWorld(t, 10, 10, func(g *GomegaWithT, w *wideWorld) {
			w.refuse = refused
			w.add(namespacesUpTo(10)...)
			for range 60 {
				time.Sleep(20 * time.Second)
				w.end(func(p *podWatch) bool { return p.namespace != "" && w.dice.IntN(2) == 0 })
			}
			w.settled(g)
			g.Expect(w.asked("")).To(BeNumerically("<", 80), "%s: a few attempts in 20 minutes, of a list and nine watches", name)
		})
	}
}

func TestWideWatchWhoseNamespacesComeLate(t *testing.T) {
	inWorld(t, 11, 24, func(g *GomegaWithT, w *wideWorld) {
		all := namespacesUpTo(24)
		for i := range 6000 {
			w.write(all[i%24], fmt.Sprint(i))
		}
		w.add(all[:8]...)
		time.Sleep(5 * time.Second)
		w.bookmarks()
		w.add(all[8:]...)
		time.Sleep(time.Minute)
		w.bookmarks()
		w.settled(g)
		wide, _ := w.open()
		g.Expect(wide).To(Equal(1), "it was not judged before they came")
	})
}

func TestIdentify(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", ResourceVersion: "7", Labels: map[string]string{"namespace": "no"}}}
	message, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := (&metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, obj := range map[string]runtime.Object{
		"decoded":            pod,
		"metadata":           &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta},
		"protobuf":           &undecoded{protobuf: message},
		"not kept":           &undecoded{protobuf: metadata, left: true},
		"JSON":               &undecoded{json: []byte(`{"apiVersion":"v1","data":{"metadata":[1]},"kind":"Pod","metadata":{"name":"a","namespace":"shop","resourceVersion":"7"},"spec":{}}`)},
		"JSON in odd order":  &undecoded{json: []byte(`{"apiVersion":"v1","count":3,"kind":"Pod","metadata":{"resourceVersion":"7","namespace":"shop"}}`)},
		"JSON with escapes":  &undecoded{json: []byte(`{"apiVersion":"v1","kind":"Pod","a\"b":"{","metadata":{"annotations":{"a":"\"}"},"resourceVersion":"7","namespace":"shop"}}`)},
		"JSON of a bookmark": &undecoded{json: []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","namespace":"shop","creationTimestamp":null}}`)},
	} {
		namespace, version, err := identify(obj)
		if namespace != "shop" || version != "7" || err != nil {
			t.Errorf("%s: %q, %q, %v", name, namespace, version, err)
		}
	}
	if _, _, err := identify(&undecoded{json: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop"}}`)}); err == nil {
		t.Error("there is no version")
	}
}

// TestRandomWideWatches lets writes, failures, ends of watches, compactions, and namespaces that come and go meet at random.
func TestRandomWideWatches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(40) {
		inWorld(t, seed+round, 14, func(g *GomegaWithT, w *wideWorld) {
			w.selects = round%2 == 1
			all := namespacesUpTo(14)
			for range 400 {
				namespace := all[w.dice.IntN(len(all))]
				switch n := w.dice.IntN(60); {
				case n < 30:
					w.write(namespace, fmt.Sprint(w.dice.IntN(5)))
				case n < 36 && w.readers[namespace] == nil:
					w.add(namespace)
				case n == 36 && w.readers[namespace] != nil:
					w.remove(namespace)
				case n == 37:
					w.fail("", errForbidden)
				case n == 38:
					w.fail("", nil)
				case n == 39:
					w.compact()
				case n < 42:
					w.end(func(*podWatch) bool { return w.dice.IntN(2) == 0 })
				case n < 44:
					w.bookmarks()
				case n == 44:
					time.Sleep(time.Minute)
				case n == 45:
					w.settled(g)
				case n == 46 && w.readers[namespace] != nil: // beside an event that was read and not passed on
					w.write(namespace, "a")
					wake(w.readers[namespace].again)
				case n == 47 && w.readers[namespace] != nil:
					wake(w.readers[namespace].anew)
				case n == 48: // another server answers
					w.mu.Lock()
					w.selects = !w.selects
					w.mu.Unlock()
				default:
					time.Sleep(time.Duration(w.dice.IntN(100)) * time.Millisecond)
				}
			}
			w.settled(g)
		})
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
