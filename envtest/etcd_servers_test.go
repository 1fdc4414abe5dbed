// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tarn-dev/tarn/envtest"
)

// lastConfigMap is the object that is written last.
const lastConfigMap = "the-last-one"

// killedMember ignores a goroutine of etcd: a handler that reads when its member is killed waits for good.
var killedMember = goleak.IgnoreAnyFunction("go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp.newPeerHandler.versionHandler.func1")

var _ = Describe("Two servers over a cluster of three members", func() {
	BeforeEach(onlyOurs)

	// The members are killed, restarted, cut off and led by others while there are writers and watchers at both servers.
	It("have watches and lists as the history in etcd, whatever happens to members", func(ctx SpecContext) {
		t := GinkgoTB()
		cluster := startCluster(t, 3, nil)
		clients := serversOn(ctx, cluster)

		begin, err := clients[0].Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "the-first-one"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var watching, writing sync.WaitGroup
		observers := make([]*observer, 3*len(clients))
		for i := range observers {
			observers[i] = &observer{client: clients[i%len(clients)], from: begin.ResourceVersion}
			watching.Go(func() { observers[i].run(ctx) })
		}
		load := &load{clients: clients, written: make(chan struct{})}
		busy, rest := context.WithCancel(ctx)
		for i := range 4 {
			writing.Go(func() { load.write(busy, i) })
		}
		for _, disturbance := range cluster.disturbances(load.some) {
			By(disturbance.name)
			Expect(load.some(ctx)).To(Succeed())
			Expect(disturbance.do(ctx)).To(Succeed(), disturbance.name)
			Expect(load.some(ctx)).To(Succeed(), "after "+disturbance.name)
		}
		rest()
		writing.Wait()
		last, err := clients[0].Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lastConfigMap}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		watching.Wait()
		Expect(ctx.Err()).NotTo(HaveOccurred(), "each watcher has seen the last object")

		history := historyOf(ctx, cluster.client(t, clientv3.Config{}), begin.ResourceVersion, last.ResourceVersion)
		t.Logf("%d events in etcd", len(history))
		Expect(load.failures()).To(BeEmpty())
		for i, o := range observers {
			t.Logf("watcher %d: %d watches", i, len(o.streams))
			Expect(o.failures).To(BeEmpty())
			Expect(o.check(history)).To(Succeed(), "watcher %d", i)
		}
	}, SpecTimeout(3*time.Minute))
})

// serversOn starts two servers at once, which end with the spec, and returns a client of each one's ConfigMaps.
func serversOn(ctx context.Context, cluster *etcdCluster) (clients []typedcorev1.ConfigMapInterface) {
	GinkgoHelper()
	began := make(chan error, 2)
	var envs []*envtest.Environment
	for range cap(began) {
		env := envtest.New(envtest.Options{Etcd: &envtest.ExternalEtcd{Servers: cluster.servers()}})
		DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
		go func() { began <- env.Start(ctx) }()
		envs = append(envs, env)
	}
	for range envs {
		Expect(<-began).To(Succeed())
	}
	for _, env := range envs {
		clients = append(clients, kubernetes.NewForConfigOrDie(env.Config()).CoreV1().ConfigMaps(metav1.NamespaceDefault))
	}
	return clients
}

// load is writers, and readers that look for what was written at another server.
type load struct {
	clients []typedcorev1.ConfigMapInterface
	written chan struct{} // a write has succeeded

	mu     sync.Mutex
	failed []error // guarded by mu
}

// some returns when there were some writes more.
func (l *load) some(ctx context.Context) error {
	for range 50 {
		select {
		case <-l.written:
		case <-ctx.Done():
			return fmt.Errorf("nothing is written: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (l *load) failures() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// write writes until ctx ends. While members have no leader, writes fail.
func (l *load) write(ctx context.Context, seed int) {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for n := 0; ctx.Err() == nil; n++ {
		at := r.IntN(len(l.clients))
		own, cancel := context.WithTimeout(ctx, time.Second)
		revision, err := writeOne(own, l.clients[at], r, fmt.Sprintf("%d-%d", seed, n))
		cancel()
		if err != nil {
			continue
		}
		if n%4 == 0 {
			if err := l.look(ctx, l.clients[1-at], revision); err != nil {
				l.mu.Lock()
				l.failed = append(l.failed, err)
				l.mu.Unlock()
			}
		}
		select {
		case l.written <- struct{}{}:
		case <-ctx.Done():
		case <-time.After(time.Millisecond): // nobody counts
		}
	}
}

// writeOne creates, updates or deletes an object, and returns the revision of that.
func writeOne(ctx context.Context, client typedcorev1.ConfigMapInterface, r *rand.Rand, value string) (revision string, err error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", r.IntN(12))}, Data: map[string]string{"value": value}}
	var got *corev1.ConfigMap
	switch r.IntN(4) {
	case 0:
		return "0", client.Delete(ctx, object.Name, metav1.DeleteOptions{})
	case 1:
		got, err = client.Create(ctx, object, metav1.CreateOptions{})
	default:
		got, err = client.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", err
	}
	return got.ResourceVersion, nil
}

// look lists at a server what was written at another before. A server that cannot ask etcd answers nothing.
func (l *load) look(ctx context.Context, client typedcorev1.ConfigMapInterface, revision string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil || numberOf(list.ResourceVersion) >= numberOf(revision) {
		return nil
	}
	return fmt.Errorf("a list is of revision %s, after a write at another server had made %s", list.ResourceVersion, revision)
}

func numberOf(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// event is a change as it is compared: its revision says which one it is.
type event struct {
	revision int64
	kind     watch.EventType
	name     string
}

// stream is a watch, and the list before it if there was one.
type stream struct {
	after  int64
	state  map[string]int64 // revisions of objects; nil if the watch goes on where another has ended
	events []event
}

// eventsOfAWatch is after how many events an observer ends its watch.
const eventsOfAWatch = 100

// observer watches at one server until it has seen the last object. Now and then it ends its watch, and goes on where it was,
// or begins with a list.
type observer struct {
	client   typedcorev1.ConfigMapInterface
	from     string // where the next watch begins; empty if it has to list before
	streams  []*stream
	failures []error
}

func (o *observer) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := o.begin(ctx)
		if err != nil {
			continue // the server has no etcd
		}
		if _, seen := s.state[lastConfigMap]; seen {
			o.streams = append(o.streams, s)
			return // no event comes after this list
		}
		own, cancel := context.WithCancel(ctx)
		over := o.watch(own, s)
		cancel()
		if over {
			return
		}
	}
}

// begin lists if that is needed.
func (o *observer) begin(ctx context.Context) (*stream, error) {
	s := &stream{}
	if o.from == "" {
		list, err := o.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		o.from, s.state = list.ResourceVersion, map[string]int64{}
		for i := range list.Items {
			if named(&list.Items[i]) {
				s.state[list.Items[i].Name] = numberOf(list.Items[i].ResourceVersion)
			}
		}
	}
	s.after = numberOf(o.from)
	return s, nil
}

// named says whether an object was written here.
func named(object *corev1.ConfigMap) bool { return !strings.HasSuffix(object.Name, ".crt") }

// watch reads a watch to its end. It returns true once it has seen the last object.
func (o *observer) watch(ctx context.Context, s *stream) bool {
	w, err := o.client.Watch(ctx, metav1.ListOptions{ResourceVersion: o.from, AllowWatchBookmarks: true})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		o.from = ""
	}
	if err != nil {
		return false
	}
	defer w.Stop()
	o.streams = append(o.streams, s)
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			o.ended(e.Object)
			return false
		}
		object := e.Object.(*corev1.ConfigMap)
		revision := numberOf(object.ResourceVersion)
		if revision < numberOf(o.from) {
			o.failures = append(o.failures, fmt.Errorf("%s %s of %d after %s", e.Type, object.Name, revision, o.from))
		}
		o.from = object.ResourceVersion
		if e.Type != watch.Bookmark && named(object) {
			s.events = append(s.events, event{revision, e.Type, object.Name})
		}
		if object.Name == lastConfigMap {
			return true
		}
		if len(s.events) == eventsOfAWatch {
			if len(o.streams)%3 == 0 {
				o.from = ""
			}
			return false
		}
	}
	return false
}

// ended looks at the error that a watch has ended with.
func (o *observer) ended(status runtime.Object) {
	err := apierrors.FromObject(status)
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		o.from = ""
	case apierrors.IsInternalError(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
	default:
		o.failures = append(o.failures, fmt.Errorf("a watch ended with: %w", err))
	}
}

// check compares what was seen with the history.
func (o *observer) check(history []event) error {
	for n, s := range o.streams {
		if err := s.check(history); err != nil {
			return fmt.Errorf("watch %d of %d, after revision %d: %w", n, len(o.streams), s.after, err)
		}
	}
	return nil
}

func (s *stream) check(history []event) error {
	if s.state != nil {
		if was := stateAt(history, s.after); !maps.Equal(was, s.state) {
			return fmt.Errorf("the list has %v, and not %v", s.state, was)
		}
	}
	for len(history) > 0 && history[0].revision <= s.after {
		history = history[1:]
	}
	for i, e := range s.events {
		if i == len(history) || history[i] != e {
			return fmt.Errorf("event %d is %v; in etcd there is then %v", i, e, history[min(i, len(history)):min(i+3, len(history))])
		}
	}
	return nil
}

// stateAt are the objects that there were at a revision.
func stateAt(history []event, revision int64) map[string]int64 {
	state := map[string]int64{}
	for _, e := range history {
		switch {
		case e.revision > revision:
		case e.kind == watch.Deleted:
			delete(state, e.name)
		default:
			state[e.name] = e.revision
		}
	}
	return state
}

// historyOf reads from etcd what has happened between two revisions, the first and the last included.
func historyOf(ctx context.Context, client *clientv3.Client, first, last string) (history []event) {
	const prefix = "/registry/configmaps/" + metav1.NamespaceDefault + "/"
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	for answer := range client.Watch(own, prefix, clientv3.WithPrefix(), clientv3.WithRev(numberOf(first))) {
		Expect(answer.Err()).NotTo(HaveOccurred())
		for _, e := range answer.Events {
			kind := watch.Modified
			switch {
			case e.Type == clientv3.EventTypeDelete:
				kind = watch.Deleted
			case e.IsCreate():
				kind = watch.Added
			}
			history = append(history, event{e.Kv.ModRevision, kind, strings.TrimPrefix(string(e.Kv.Key), prefix)})
		}
		if n := len(history); n > 0 && history[n-1].revision >= numberOf(last) {
			return history
		}
	}
	Expect(errors.Join(errors.New("the history has no end"), ctx.Err())).NotTo(HaveOccurred())
	return nil
}
