// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// inShop returns the key of an object.
func inShop(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }

// secret returns a Secret with a label.
func secret(name, version, app string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version, Labels: map[string]string{"app": app}}}
}

// referTo returns a reference to a name, or without one to the list of what is labelled as web. Only the request "r" holds it.
func referTo(name string, u *use) *reference[string] {
	web, _ := labels.Parse("app=web")
	key := refKey{Key: informers.Key{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret")}, namespace: "shop", name: name}
	if name != "" {
		return &reference[string]{Lease: &Lease{}, key: key, users: map[string]*use{"r": u}, woken: prometheus.NewCounter(prometheus.CounterOpts{})}
	}
	return &reference[string]{Lease: &Lease{scope: extentOf("shop", informers.Selector{Label: web})}, key: key, users: map[string]*use{"r": u}, woken: prometheus.NewCounter(prometheus.CounterOpts{})}
}

// referring returns references that have a queue, and their listener, which hears what is to wake a request.
func referring(t *testing.T, refs ...*reference[string]) (*References[string], *listener[string]) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(queue.ShutDown)
	r := &References[string]{of: &registry{}, name: "test", queue: queue, all: map[refKey]*reference[string]{}, wakeUps: map[string][]wakeUp[string]{}}
	l := &listener[string]{of: r, named: map[client.ObjectKey][]*reference[string]{}, wide: map[*reference[string]]struct{}{}}
	for _, ref := range refs {
		if ref.key.name == "" {
			l.wide[ref] = struct{}{}
		} else {
			l.named[ref.key.object()] = append(l.named[ref.key.object()], ref)
		}
	}
	return r, l
}

// why returns the wake-ups of the request.
func (r *References[R]) why(request R) (all []string) {
	for _, w := range r.takeWakeUps(request) {
		all = append(all, w.change+" "+w.object.Name)
	}
	return all
}

// seen is what a request has read.
func seen(version string) *use { return &use{read: true, version: version} }

func TestWhyARequestIsWoken(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "a")
	a, b, list := func() *reference[string] { return referTo("a", seen("1")) }, func() *reference[string] { return referTo("b", seen("1")) }, func() *reference[string] { return referTo("", seen("5")) }
	gone := func(string, string) bool { return false }
	for _, c := range []struct {
		what string
		refs []*reference[string]
		do   func(r *References[string], l *listener[string], first *reference[string])
		want []string
	}{
		{"changes of a name", []*reference[string]{a()}, func(_ *References[string], l *listener[string], _ *reference[string]) {
			l.OnUpdate(secret("a", "1", ""), secret("a", "2", ""))
			l.OnDelete(secret("a", "2", ""))
			l.OnAdd(secret("a", "3", ""), false)
			l.OnUpdate(secret("a", "3", ""), secret("a", "4", ""))
		}, []string{"Modified a", "Deleted a", "Added a"}},
		{"an object enters a list, and leaves it", []*reference[string]{list()}, func(_ *References[string], l *listener[string], _ *reference[string]) {
			l.OnUpdate(secret("a", "6", "db"), secret("a", "7", "db"))
			l.OnUpdate(secret("a", "7", "db"), secret("a", "8", "web"))
			l.OnUpdate(secret("a", "8", "web"), secret("a", "9", "db"))
		}, []string{"Added a", "Deleted a"}},
		{"two names are gone in a difference", []*reference[string]{a(), b()}, func(_ *References[string], l *listener[string], _ *reference[string]) {
			l.OnDifference(7, false, gone)
		}, []string{"Deleted a", "Deleted b"}},
		{"a list is older than a difference", []*reference[string]{list()}, func(_ *References[string], l *listener[string], _ *reference[string]) {
			l.OnDifference(7, false, gone)
		}, []string{"Listed "}},
		{"a list is as new as a difference", []*reference[string]{list()}, func(_ *References[string], l *listener[string], _ *reference[string]) {
			l.OnDifference(5, false, gone)
		}, nil},
		{"a difference comes after its events", []*reference[string]{a(), list()}, func(_ *References[string], l *listener[string], _ *reference[string]) {
			l.OnDelete(secret("a", "1", "web"))
			l.OnDifference(7, false, gone)
		}, []string{"Deleted a", "Deleted a"}}, // as the name, and in the list
		{"a change before a read is complete", []*reference[string]{referTo("a", &use{})}, func(r *References[string], l *listener[string], first *reference[string]) {
			l.OnUpdate(secret("a", "1", ""), secret("a", "2", ""))
			r.saw(readOf(first), first, "1", nil)
		}, []string{"Changed a"}},
		{"a list without what has changed", []*reference[string]{referTo("", &use{})}, func(r *References[string], l *listener[string], first *reference[string]) {
			l.OnUpdate(secret("a", "1", "web"), secret("a", "6", "web"))
			l.OnAdd(secret("b", "2", "web"), true)
			r.saw(readOf(first), first, "5", nil)
		}, []string{"Changed "}},
		{"a second read finds nothing", []*reference[string]{referTo("a", &use{})}, func(r *References[string], _ *listener[string], first *reference[string]) {
			read := readOf(first)
			r.saw(read, first, "1", nil)
			r.saw(read, first, "", notFound)
		}, []string{"Changed a"}},
		{"a second read finds nothing, as the handler has heard", []*reference[string]{referTo("a", &use{})}, func(r *References[string], l *listener[string], first *reference[string]) {
			read := readOf(first)
			r.saw(read, first, "1", nil)
			l.OnDelete(secret("a", "1", ""))
			r.saw(read, first, "", notFound)
		}, []string{"Deleted a"}},
		{"a second read fails", []*reference[string]{referTo("a", &use{})}, func(r *References[string], _ *listener[string], first *reference[string]) {
			read := readOf(first)
			r.saw(read, first, "1", nil)
			r.saw(read, first, "", errors.New("timeout"))
		}, nil},
		{"the source has ended", []*reference[string]{a()}, func(r *References[string], l *listener[string], _ *reference[string]) {
			l.OnDelete(secret("a", "1", ""))
			r.end()
			l.OnAdd(secret("a", "2", ""), false)
			r.noteNext("r", []wakeUp[string]{{change: added}}, reconcile.Result{}, errors.New("failed"))
		}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			g := NewWithT(t)
			r, l := referring(t, c.refs...)
			c.do(r, l, c.refs[0])
			g.Expect(r.why("r")).To(ConsistOf(c.want))
			if r.queue != nil {
				g.Expect(r.queue.Len()).To(Equal(min(1, len(c.want))))
			}
		})
	}
}

// readOf returns the tracker of a reconcile that reads a reference.
func readOf(ref *reference[string]) *tracker[string] {
	return &tracker[string]{request: "r", read: map[*reference[string]]string{ref: ""}}
}

// TestWakeUpsAreBounded has a request that is woken often before it is reconciled, and whose reconcile fails or panics.
func TestWakeUpsAreBounded(t *testing.T) {
	g, ref := NewWithT(t), referTo("", seen("1"))
	r, l := referring(t, ref)
	for _, name := range "abcdefghijklmnopqrstuvwxyz" {
		l.OnAdd(secret(string(name), "2", "web"), false)
		l.OnAdd(secret(string(name), "2", "web"), false)
	}
	g.Expect(cap(r.wakeUps["r"])).To(BeNumerically("<=", 2*maxWakeUps))
	for _, fails := range []func(){func() {}, func() { panic("crash") }} {
		func() {
			defer func() { _ = recover() }()
			_, _ = r.Reconciler(reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
				fails()
				return reconcile.Result{}, errors.New("failed")
			})).Reconcile(t.Context(), "r")
		}()
	}
	l.OnDelete(secret("z", "3", "web"))
	g.Expect(r.why("r")).To(HaveExactElements("Added s", "Added t", "Added u", "Added v", "Added w", "Added x", "Added y", "Added z", "Retried ", "Deleted z"))
	g.Expect(r.why("r")).To(BeEmpty())
}

// TestARequestThatAsksForItself has reconciles that fail, or ask for the next one after a time.
func TestARequestThatAsksForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ref := NewWithT(t), referTo("a", seen("1"))
		r, l := referring(t, ref)
		reconciled := func(result reconcile.Result, fails error) (why []string) {
			_, err := r.Reconciler(reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
				for _, w := range r.WakeUps(ctx) {
					g.Expect(w.At).NotTo(BeTemporally(">", time.Now()))
					why = append(why, w.Kind.Kind+" "+w.Change)
				}
				return result, fails
			})).Reconcile(t.Context(), "r")
			g.Expect(err == nil).To(Equal(fails == nil))
			return why
		}
		after, failed := reconcile.Result{RequeueAfter: time.Minute}, errors.New("failed")
		g.Expect(reconciled(after, nil)).To(BeEmpty())
		g.Expect(reconciled(after, nil)).To(BeEmpty(), "the time has not come")
		l.OnDelete(secret("a", "2", ""))
		time.Sleep(time.Minute)
		g.Expect(reconciled(reconcile.Result{}, failed)).To(HaveExactElements("Secret Deleted", " Requeued"))
		g.Expect(reconciled(reconcile.Result{}, failed)).To(HaveExactElements("Secret Deleted", " Requeued", " Retried"))
		g.Expect(reconciled(reconcile.Result{}, reconcile.TerminalError(failed))).To(HaveExactElements("Secret Deleted", " Requeued", " Retried"), "once")
		g.Expect(reconciled(reconcile.Result{}, nil)).To(BeEmpty(), "that is not tried again")
		g.Expect(reconciled(reconcile.Result{}, nil)).To(BeEmpty())
		g.Expect(r.wakeUps).To(BeEmpty())
		r.queue.ShutDown()
	})
}

// TestAnEventThatWakesNobodyAllocatesNothingForARequest has many requests hear of a change that they have read.
func TestAnEventThatWakesNobodyAllocatesNothingForARequest(t *testing.T) {
	ref := referTo("a", seen("3"))
	for _, request := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		ref.users[request] = seen("3")
	}
	_, l := referring(t, ref)
	obj := secret("a", "3", "")
	NewWithT(t).Expect(testing.AllocsPerRun(1000, func() { l.OnUpdate(obj, obj) })).To(BeNumerically("<=", 1))
}

// TestWakeUpsAreLogged has a reconcile log why it runs, if anybody wants to see that.
func TestWakeUpsAreLogged(t *testing.T) {
	for verbosity, want := range map[int]int{0: 0, 1: 1} {
		g := NewWithT(t)
		r, _ := referring(t)
		r.wakeUps["r"] = []wakeUp[string]{{ref: referTo("tls", &use{}), object: inShop("tls"), change: added, at: time.Unix(0, 0).UTC()}}
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: verbosity})
		reconciler := r.Reconciler(reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }))
		for range 2 { // the second one was not woken
			_, err := reconciler.Reconcile(log.IntoContext(t.Context(), logger), "r")
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(lines).To(HaveLen(want))
		if want > 0 {
			g.Expect(lines[0]).To(ContainSubstring(`Secret Added shop/tls at 1970-01-01T00:00:00Z, read as namespace \"shop\" and the field selector`))
		}
	}
}

// TestNewestRequestsAreKeptForALook has requests reconciled before, during and long after somebody looks.
func TestNewestRequestsAreKeptForALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r, _ := referring(t)
		r.wakeUps["r"] = []wakeUp[string]{{ref: referTo("tls", &use{}), object: inShop("tls"), change: added, at: time.Now()}}
		g.Expect(r.takeWakeUps("before")).To(BeEmpty())
		g.Expect(r.newest).To(BeNil(), "nobody has looked")
		g.Expect(r.look().Requests).To(BeEmpty())
		r.takeWakeUps("r")
		r.takeWakeUps("other")
		g.Expect(r.look().Requests).To(HaveExactElements(
			And(HaveField("Request", "other"), HaveField("WakeUps", BeEmpty())),
			And(HaveField("Request", "r"), HaveField("WakeUps", ConsistOf(And(
				HaveField("Name", "tls"), HaveField("Change", added), HaveField("Scope", `namespace "shop" and the field selector "metadata.name=tls"`)))))))
		time.Sleep(lookFor)
		r.takeWakeUps("r")
		g.Expect(r.look().Requests).To(HaveLen(3))
		time.Sleep(lookFor + time.Second)
		r.takeWakeUps("r")
		g.Expect(r.newest).To(BeNil(), "nobody looks any more")
		g.Expect(r.look().Requests).To(BeEmpty())
		r.takeWakeUps("r")
		time.Sleep(lookFor + time.Second)
		g.Expect(r.look().Requests).To(BeEmpty(), "what was before a look that comes late would have gaps")
		r.queue.ShutDown()
	})
}

// TestNoWakeUpsAreKeptForAnother has a reconciler that is not wrapped, and so takes none.
func TestNoWakeUpsAreKeptForAnother(t *testing.T) {
	r, _ := referring(t)
	r.name = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked("r", wakeUp[string]{change: added, handler: "main.go:1"})
	NewWithT(t).Expect(r.wakeUps).To(BeEmpty())
}
