// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

// The tests named TestInformer... say how a SharedIndexInformer behaves. They run
// on client-go's, which is the authority, and on ours: with lists and with
// streaming lists, each time in a bubble of its own in which time stands still
// unless a test lets it pass.

// implementation is an informer to which the tests apply.
type implementation struct {
	name string
	new  func(*server, setting) toolscache.SharedIndexInformer
	// ours marks what keeps the promises that client-go does not make.
	ours bool
	// window is how many events a slow handler may get one by one; ours only.
	window int
	// view marks an implementation that shows the objects of another informer.
	view bool
}

// implementations returns the table: client-go's informer, and ours in both forms and
// as a cache makes it, whose objects come kept.
func implementations() []implementation {
	return []implementation{
		{name: "client-go", new: newClientGoInformer},
		{name: "flat", new: newOwnInformer(false, asReceived), ours: true, window: conformanceWindow},
		{name: "decoded", new: newOwnInformer(true, asReceived), ours: true, window: conformanceWindow},
		{name: "decoded events", new: newOwnInformer(false, asDecodedEvents), ours: true, window: conformanceWindow},
		{name: "messages", new: newOwnInformer(false, asMessages), ours: true, window: conformanceWindow},
		{name: "view", new: newShownInformer, ours: true, window: conformanceWindow, view: true},
	}
}

// conformanceWindow is the window of ours. It is longer than what most tests write,
// so that they see every event as with client-go's.
const conformanceWindow = 1000

func newClientGoInformer(s *server, want setting) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformerWithOptions(s, want.example,
		toolscache.SharedIndexInformerOptions{ResyncPeriod: want.resync, Indexers: want.allIndexers()})
}

// delivered is how the objects of a watch come to the Reflector.
type delivered int

const (
	asReceived      delivered = iota
	asDecodedEvents           // kept, as in a cache
	asMessages                // kept, of a protobuf message, without having been decoded
)

// newOwnInformer returns a function that makes our informer. A decoded informer indexes namespaces
// with client-go's function, and others by the order of the keys.
func newOwnInformer(decoded bool, how delivered) func(*server, setting) toolscache.SharedIndexInformer {
	return func(s *server, want setting) toolscache.SharedIndexInformer {
		o := Options{
			Example: want.example, ResyncPeriod: want.resync, Indexers: want.indexers, NamespaceIndex: want.namespaces,
			Decoded: decoded, Verify: true, Window: conformanceWindow,
		}
		if decoded {
			o.Indexers, o.NamespaceIndex = want.allIndexers(), false
		}
		i, err := New(sourceOf(s, how), o)
		if err != nil {
			panic(err)
		}
		return i
	}
}

// noSource is the source of informers that do not run.
func noSource(Receiver) toolscache.ListerWatcher { return nil }

// sourceOf returns the source that lists and watches s.
func sourceOf(s *server, how delivered) ListerWatcherFunc {
	return func(to Receiver) toolscache.ListerWatcher {
		o := listwatch.Options{Bookmarks: s.streaming, Each: to.Each}
		switch how {
		case asReceived:
			o.Each = nil
		case asMessages:
			o.Each = func(e watch.Event) watch.Event { return asMessage(to, e) }
		}
		return listwatch.New(serverSource{s}, o)
	}
}

// asMessage treats an event as if its object had come as a protobuf message.
func asMessage(to Receiver, e watch.Event) watch.Event {
	object, ok := e.Object.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return to.Each(e)
	}
	message, err := object.Marshal()
	if err != nil {
		panic(err)
	}
	if made := to.Message(e.Type, message); made != nil {
		return watch.Event{Type: e.Type, Object: made}
	}
	return to.Each(e)
}

// serverSource is a server as a source.
type serverSource struct{ *server }

func (s serverSource) Example() runtime.Object { return s.server.example }

func (s serverSource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(ctx, opts)
}

func (s serverSource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(ctx, opts)
}

func (s serverSource) Finish(e watch.Event) watch.Event { return e }

// setting is what a test wants of its informer; the zero value is an informer of
// ConfigMaps that does not resync.
type setting struct {
	example  runtime.Object
	resync   time.Duration
	indexers toolscache.Indexers
	// namespaces adds an index of namespaces, toolscache.NamespaceIndex.
	namespaces bool
	// notOfViews says that the test is about what a view does not have: a store that can be written
	// to, and a source of its own.
	notOfViews bool
}

// allIndexers returns the indexers as client-go takes them.
func (s setting) allIndexers() toolscache.Indexers {
	// Client-go's informer takes the map for its own, and ours may be the next.
	indexers := toolscache.Indexers{}
	maps.Copy(indexers, s.indexers)
	if s.namespaces {
		indexers[toolscache.NamespaceIndex] = toolscache.MetaNamespaceIndexFunc
	}
	return indexers
}

// eachInformer runs the check on every implementation, with and without streaming
// lists.
func eachInformer(t *testing.T, want setting, check func(r *rig)) {
	t.Helper()
	for _, impl := range implementations() {
		if want.notOfViews && impl.view {
			continue
		}
		for _, streaming := range []bool{false, true} {
			name := impl.name + "/list"
			if streaming {
				name = impl.name + "/streaming list"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { check(newRig(t, impl, want, streaming)) })
			})
		}
	}
}

// rig is an informer with its server, and what is needed to observe it.
type rig struct {
	*WithT
	t        *testing.T
	impl     implementation
	server   *server
	informer toolscache.SharedIndexInformer
	failures *journal // the watch errors

	cancel context.CancelFunc
	done   chan struct{} // closed when the informer's Run has returned
	gates  []*gate
}

func newRig(t *testing.T, impl implementation, want setting, streaming bool) *rig {
	if want.example == nil {
		want.example = &corev1.ConfigMap{}
	}
	s := newServer(want.example, streaming)
	r := &rig{
		WithT: NewWithT(t), t: t, impl: impl, server: s,
		informer: impl.new(s, want),
		failures: &journal{},
	}
	r.Expect(r.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		r.failures.write(err.Error())
	})).To(Succeed())
	return r
}

// start runs the informer until the test ends or stop is called, and returns when
// there is nothing left for it to do.
func (r *rig) start() {
	// Warnings are for people; the tests look at what follows from them.
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		r.informer.RunWithContext(ctx)
	}()
	r.t.Cleanup(func() {
		for _, g := range r.gates {
			g.open()
		}
		r.stop()
	})
	synctest.Wait()
}

// stop ends the informer and waits for it.
func (r *rig) stop() {
	r.cancel()
	<-r.done
}

// settle returns when neither the informer nor a handler has anything to do.
func (r *rig) settle() { synctest.Wait() }

// elapse lets time pass.
func (r *rig) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// relist lets the informer miss the changes and list again.
func (r *rig) relist(changes func()) {
	r.server.miss(changes)
	r.elapse(time.Minute) // longer than the Reflector waits between two lists
}

// handle adds a handler.
func (r *rig) handle(h toolscache.ResourceEventHandler) toolscache.ResourceEventHandlerRegistration {
	return r.handleWith(h, toolscache.HandlerOptions{})
}

// handleEvery adds a handler with a resync period.
func (r *rig) handleEvery(period time.Duration, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandlerRegistration {
	return r.handleWith(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

func (r *rig) handleWith(h toolscache.ResourceEventHandler, opts toolscache.HandlerOptions) toolscache.ResourceEventHandlerRegistration {
	r.t.Helper()
	silent := logr.Discard()
	opts.Logger = &silent
	registration, err := r.informer.AddEventHandlerWithOptions(h, opts)
	r.Expect(err).NotTo(HaveOccurred())
	return registration
}

// gate is a door that is shut until it is opened; the end of the test opens it.
func (r *rig) gate() *gate {
	g := &gate{opened: make(chan struct{})}
	r.gates = append(r.gates, g)
	return g
}

type gate struct {
	once   sync.Once // closes opened
	opened chan struct{}
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }
func (g *gate) pass() { <-g.opened }

// journal is a list of lines, safe for concurrent use.
type journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// take returns the lines since the last take.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// recording is a handler that writes down what it is told: "initial ns/a=1",
// "add ns/a=1", "update ns/a=1>2", "delete ns/a=2", and "missed delete ns/a=2" for
// a deletion whose final state is unknown. An event is written when before, if it
// is set, has returned.
type recording struct {
	journal
	before func(event string)
}

func (h *recording) tell(event string) {
	if h.before != nil {
		h.before(event)
	}
	h.write(event)
}

func (h *recording) OnAdd(obj any, isInInitialList bool) {
	kind := "add "
	if isInInitialList {
		kind = "initial "
	}
	h.tell(kind + describe(obj))
}

func (h *recording) OnUpdate(oldObj, newObj any) {
	before, after := describe(oldObj), describe(newObj)
	if keyOf(oldObj) != keyOf(newObj) {
		h.tell("update of " + before + " by another object, " + after)
		return
	}
	h.tell("update " + before + ">" + valueOf(newObj))
}

func (h *recording) OnDelete(obj any) {
	unknown, missed := obj.(toolscache.DeletedFinalStateUnknown)
	if !missed {
		h.tell("delete " + describe(obj))
		return
	}
	if unknown.Key != keyOf(unknown.Obj) {
		h.tell("missed delete of " + describe(unknown.Obj) + " under the key " + unknown.Key)
		return
	}
	h.tell("missed delete " + describe(unknown.Obj))
}

// configMap returns a ConfigMap; its key is namespace/name.
func configMap(key, value string) *corev1.ConfigMap {
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		panic(err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{"value": value},
	}
}

func describe(obj any) string { return keyOf(obj) + "=" + valueOf(obj) }

func describeAll(objects []any) []string {
	described := make([]string, 0, len(objects))
	for _, obj := range objects {
		described = append(described, describe(obj))
	}
	slices.Sort(described)
	return described
}

func keyOf(obj any) string {
	key, err := toolscache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		panic(err)
	}
	return key
}

// valueOf returns the value of a ConfigMap, and the label "value" of others.
func valueOf(obj any) string {
	if cm, ok := obj.(*corev1.ConfigMap); ok {
		return cm.Data["value"]
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return accessor.GetLabels()["value"]
}

func resourceVersionOf(obj any) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return accessor.GetResourceVersion()
}

// replay applies a handler's events to an empty state. It fails if one contradicts
// those before it, which is so if an event was lost, doubled or out of order.
func replay(events []string) (map[string]string, error) {
	state := map[string]string{}
	for _, event := range events {
		kind, rest, _ := strings.Cut(event, " ")
		rest = strings.TrimPrefix(rest, "delete ") // of a missed delete
		key, value, _ := strings.Cut(rest, "=")
		before, after, _ := strings.Cut(value, ">")
		known, exists := state[key]
		switch {
		case (kind == "initial" || kind == "add") && !exists:
			state[key] = value
		case kind == "update" && exists && known == before:
			state[key] = after
		case (kind == "delete" || kind == "missed") && exists:
			delete(state, key)
		default:
			return nil, errors.New(event + " contradicts the events before it")
		}
	}
	return state, nil
}
