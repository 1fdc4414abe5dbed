// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/tarn-dev/tarn/internal/object"
)

func TestMain(m *testing.M) {
	if os.Getenv("TARN_VERIFY_FLAT") == "true" {
		object.VerifyAll()
	}
	// Before the first informer: client-go takes one provider a process.
	toolscache.SetInformerMetricsProvider(published)
	// The second handler makes whoever logs an error wait, by the time of the error before,
	// which may have been in another bubble.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

var (
	podKey  = Key{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod")}
	nodeKey = Key{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node")}
)

// mapper knows Pods and Nodes; resolving runs first if it is set.
type mapper struct {
	meta.RESTMapper
	resolving func(schema.GroupKind)
}

func newMapper() *mapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(podKey.GroupVersionKind, meta.RESTScopeNamespace)
	m.Add(nodeKey.GroupVersionKind, meta.RESTScopeRoot)
	return &mapper{RESTMapper: m}
}

func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.resolving != nil {
		m.resolving(gk)
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}

// testMaps makes names of maps, which must be unique in a process.
var testMaps atomic.Int64

func testOptions() Options {
	return Options{Shared: &Shared{
		Name: fmt.Sprint("test-", testMaps.Add(1)), Logger: logr.Discard(),
		Config: &rest.Config{}, HTTPClient: http.DefaultClient, Scheme: scheme.Scheme, Mapper: newMapper(),
	}}
}

// newFakeMap returns a map whose informers are made by fake.
func newFakeMap(fake func() toolscache.SharedIndexInformer) *Map {
	o := testOptions()
	o.NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
		return fake()
	}
	return NewMap(o)
}

// running starts m and returns a function that stops it and waits for its end.
func running(t *testing.T, m *Map) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	<-m.runner.started
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func neverSynced() toolscache.SharedIndexInformer { return controllertest.NewFakeInformer() }
func alwaysSynced() toolscache.SharedIndexInformer {
	return controllertest.NewFakeInformer(controllertest.Synced)
}

func TestMapGivesOneEntryForAKey(t *testing.T) {
	g := NewWithT(t)
	m := newFakeMap(alwaysSynced)
	_, ok := m.Peek(podKey)
	g.Expect(ok).To(BeFalse())

	var wg sync.WaitGroup
	entries := make([]*MapEntry, 8)
	for i := range entries {
		wg.Go(func() { entries[i], _ = m.Get(t.Context(), podKey) })
	}
	wg.Wait()
	for _, entry := range entries {
		g.Expect(entry).To(And(Not(BeNil()), BeIdenticalTo(entries[0])))
	}
	for _, other := range []Representation{Unstructured, Metadata} {
		entry, err := m.Get(t.Context(), Key{GroupVersionKind: podKey.GroupVersionKind, Representation: other})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(entry).NotTo(BeIdenticalTo(entries[0]))
	}
}

func TestMapStartsOnce(t *testing.T) {
	g := NewWithT(t)
	m := newFakeMap(alwaysSynced)
	g.Expect(m.Started()).To(BeFalse())
	running(t, m)
	g.Expect(m.Started()).To(BeTrue())
	g.Expect(m.Start(t.Context())).To(MatchError(ContainSubstring("informer already started")))
}

func TestMapErrors(t *testing.T) {
	g := NewWithT(t)
	m := NewMap(testOptions())

	_, err := m.Get(t.Context(), Key{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}})
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	g.Expect(err).To(MatchError(And(ContainSubstring("Widget (example.com/v1)"), ContainSubstring("install its CRD"))))

	_, err = m.Get(t.Context(), Key{GroupVersionKind: podKey.GroupVersionKind, Representation: 7})
	g.Expect(err).To(MatchError(ContainSubstring("unknown representation")))

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Get(gone, podKey)
	g.Expect(apierrors.IsTimeout(err)).To(BeTrue())
	_, ok := m.Peek(podKey)
	g.Expect(ok).To(BeFalse(), "no informer is made for a caller who has gone")
}

func TestMapRefusesInformersOnceStopped(t *testing.T) {
	g := NewWithT(t)
	m := newFakeMap(alwaysSynced)
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	running(t, m)()
	_, err = m.Get(t.Context(), nodeKey)
	g.Expect(err).To(MatchError(errStopped))
	g.Expect(m.Get(t.Context(), podKey)).To(BeIdenticalTo(entry), "what was cached can still be read")
}

func TestMapAnswersForOtherKindsWhileDiscoveryIsSlow(t *testing.T) {
	g := NewWithT(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	m := newFakeMap(alwaysSynced)
	m.options.Mapper.(*mapper).resolving = func(gk schema.GroupKind) {
		if gk.Kind == "Pod" {
			close(asked)
			<-answer
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = m.Get(t.Context(), podKey) })
	<-asked
	_, err := m.Get(t.Context(), nodeKey)
	g.Expect(err).NotTo(HaveOccurred())
	close(answer)
	wg.Wait()
}

func TestWaitForCacheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		fake := controllertest.NewFakeInformer()
		m := newFakeMap(func() toolscache.SharedIndexInformer { return fake })
		_, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())

		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g.Expect(m.WaitForCacheSync(short)).To(BeFalse(), "it is not started")

		stop := running(t, m)
		short, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g.Expect(m.WaitForCacheSync(short)).To(BeFalse(), "it has not synced")

		synced := make(chan bool, 1)
		go func() { synced <- m.WaitForCacheSync(t.Context()) }()
		synctest.Wait()
		g.Expect(synced).NotTo(Receive())
		fake.Synced()
		g.Expect(<-synced).To(BeTrue())
		stop()
	})
}

func TestWaitersLearnOfARemovalAndOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		m := newFakeMap(neverSynced)
		stop := running(t, m)
		wait := func(key Key) chan error {
			entry, err := m.Get(t.Context(), key)
			g.Expect(err).NotTo(HaveOccurred())
			result := make(chan error, 1)
			go func() { result <- entry.WaitForSync(t.Context()) }()
			synctest.Wait()
			return result
		}
		removed, stopped := wait(podKey), wait(nodeKey)

		m.Remove(podKey)
		g.Expect(<-removed).To(MatchError(errRemoved))
		g.Expect(stopped).NotTo(Receive())
		_, ok := m.Peek(podKey)
		g.Expect(ok).To(BeFalse())
		m.Remove(podKey) // once more is no problem

		stop()
		g.Expect(<-stopped).To(MatchError(errRemoved))
	})
}

// TestAPartEndsWithItsInformer has somebody look at a part before its informer is removed, and use it after that.
func TestAPartEndsWithItsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		m := newFakeMap(neverSynced)
		stop := running(t, m)
		part := m.Part("", Selector{})
		_, err := part.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(part.Remove(podKey)).To(Succeed())
		g.Expect(part.HasLeft()).To(BeTrue())
		_, err = part.Get(t.Context(), podKey)
		g.Expect(err).To(MatchError(errStopped))
		_, err = m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		stop()
	})
}

// failing is an API server that forbids everything.
func failing(t *testing.T) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden: no role","reason":"Forbidden","code":403}`))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestATimeoutSaysWhatTheInformerWaitsFor(t *testing.T) {
	g := NewWithT(t)
	failed := make(chan error, 100)
	o := testOptions()
	o.Config = failing(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	o.HTTPClient = &http.Client{Transport: transport}
	o.Namespace = "default"
	o.WatchErrorHandler = func(_ context.Context, _ *toolscache.Reflector, err error) {
		select {
		case failed <- err:
		default:
		}
	}
	m := NewMap(o)
	stop := running(t, m)
	defer stop()
	entry, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(apierrors.IsForbidden(<-failed)).To(BeTrue(), "the user's handler is called too")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no patience"))
	err = entry.WaitForSync(ctx)
	g.Expect(apierrors.IsTimeout(err)).To(BeTrue())
	g.Expect(err).To(MatchError(And(
		ContainSubstring(`Pod (v1) in namespace "default"`),
		ContainSubstring("no patience"),
		ContainSubstring("pods is forbidden: no role"))))
}

func TestGoRunsWithinTheLifeOfTheMap(t *testing.T) {
	g := NewWithT(t)
	m := newFakeMap(alwaysSynced)
	ran := make(chan string, 2)
	task := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			ran <- name
			<-ctx.Done()
		}
	}
	m.Go(task("before"))
	g.Expect(ran).NotTo(Receive())
	stop := running(t, m)
	g.Expect(<-ran).To(Equal("before"))
	m.Go(task("while"))
	g.Expect(<-ran).To(Equal("while"))
	stop()
	m.Go(func(context.Context) { t.Error("ran after the stop") })
}

// fussy is an informer that refuses what it is configured with.
type fussy struct{ *controllertest.FakeInformer }

func (fussy) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errors.New("takes no handler")
}

func TestAnInformerOfTheUsersMayRefuseOurErrorHandlerButNotTheirs(t *testing.T) {
	g := NewWithT(t)
	m := newFakeMap(func() toolscache.SharedIndexInformer { return fussy{controllertest.NewFakeInformer()} })
	_, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred())
	m.options.WatchErrorHandler = toolscache.DefaultWatchErrorHandler
	_, err = m.Get(t.Context(), nodeKey)
	g.Expect(err).To(MatchError(And(ContainSubstring("Node"), ContainSubstring("takes no handler"))))
}

func TestRepresentationOf(t *testing.T) {
	g := NewWithT(t)
	for obj, want := range map[runtime.Object]Representation{
		&corev1.Pod{}:                       Structured,
		&corev1.PodList{}:                   Structured,
		&unstructured.Unstructured{}:        Unstructured,
		&unstructured.UnstructuredList{}:    Unstructured,
		&metav1.PartialObjectMetadata{}:     Metadata,
		&metav1.PartialObjectMetadataList{}: Metadata,
	} {
		g.Expect(representationOf(obj)).To(Equal(want), "%T", obj)
	}
	g.Expect(KeyOf(podKey.GroupVersionKind, &metav1.PartialObjectMetadata{}).String()).To(Equal("Pod (v1) as metadata"))
	g.Expect(podKey.String()).To(Equal("Pod (v1)"))
}

func TestJitterStaysWithinTenPercent(t *testing.T) {
	g := NewWithT(t)
	different := map[time.Duration]bool{}
	for range 100 {
		period := jitter(time.Hour)
		g.Expect(period).To(And(BeNumerically(">=", 54*time.Minute), BeNumerically("<=", 66*time.Minute)))
		different[period] = true
	}
	g.Expect(len(different)).To(BeNumerically(">", 1))
	g.Expect(jitter(0)).To(BeZero(), "no resync stays no resync")
}
