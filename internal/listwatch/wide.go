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
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/cover"
)

const (
	// fewestNamespaces is the number of namespaces from which on one watch takes less than one for each.
	fewestNamespaces = 8
	// outside is how many times as much a wide watch may bring of other namespaces: to drop an object takes a part of what it takes to
	// keep it, and a watch takes as much as some objects.
	outside = 3
	// tolerated is how many objects and events of other namespaces count for nothing.
	tolerated = 1000
	// openTimeout bounds how long a wide watch may take to list, and to cover a namespace: members wait for each.
	openTimeout = 20 * time.Second
	// maxRanges bounds the ranges of a cover: the URL has a hundred bytes for each. API servers take a megabyte; of a proxy that takes less,
	// fewer are asked for, down to fewestRanges.
	maxRanges    = 256
	fewestRanges = 16
	// gathering is how long a wide watch waits for further namespaces, before the server is asked to select them.
	gathering = 100 * time.Millisecond
	// heldFor is how long the list is held for members that come later. After an outage a Reflector pauses for so long.
	heldFor = 30 * time.Second
	// longEnough is how long a watch lasts that ends as it should.
	longEnough = 10 * time.Second
	// costlyFor is how long a wide watch that was too costly is not tried again, unless there are twice as many namespaces.
	costlyFor = time.Hour
)

// reopening are the pauses between attempts to go on with a wide watch, and pauses those before it is tried anew after it failed.
var (
	reopening = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 8}
	pauses    = wait.Backoff{Duration: time.Minute, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Hour}
)

// wideOptions configure a wide watch. All but Silence are required.
type wideOptions struct {
	// Source lists and watches the kind in all namespaces.
	Source Source
	// Part returns a source of a namespace alone.
	Part func(namespace string, client *http.Client) (Source, error)
	// Survey returns how many namespaces there are, and whether the server knows shard selectors.
	Survey func(context.Context) (namespaces int, selects bool, err error)
	// Run runs a function in a goroutine until its context ends. It reports false if nothing runs any more.
	Run func(func(context.Context)) bool
	// Silence is how long the watch may bring nothing, see Options.IdleTimeout; zero is for ever.
	Silence time.Duration
	Logger  logr.Logger
}

// wideWatch is one watch of a kind in all namespaces, which serves the sources of single namespaces, its members. It runs while there are many
// of them, and brings little of other namespaces. Otherwise, and when anything of it fails for good, each makes its own requests. So an error
// that a member returns is always one of its own request. Its Failures have those of a watch for all that is asked for again. It is safe for
// concurrent use.
//
// A server that knows shard selectors (KEP-5866) sends what a cover of the namespaces selects. A namespace that comes later waits until the
// next request, which goes on at the version that was reached, with a cover of it. What comes besides is dropped here, so a server may
// ignore a selector.
//
// A namespace joins with its list: from then on its events are queued. The list is at least as new, and the watch goes on with what is
// newer than the list. When the wide watch ends for good, what was queued is passed on. Each namespace lists again, and that list is not
// older than what it has. So nothing is missed, and nothing comes twice.
type wideWatch struct {
	wideOptions

	mu    sync.Mutex     // guards what follows
	alive map[string]int // lives, by namespace: whether they are members or not
	run   *wideRun       // nil while each watches by itself
	most  int            // ranges of a cover
	from  string         // the version from which on the next run lists
	trial attempt
}

// attempt says when a wide watch may begin.
type attempt struct {
	at         time.Time
	namespaces int // with so many it may begin at once; zero says nothing
	pauses     wait.Backoff
}

// wideRun is a wide watch from its list until it is given up. wideWatch.mu guards what may change.
type wideRun struct {
	coverage
	opened   chan struct{} // closed when the list is there, or is not to be had
	stop     context.CancelCauseFunc
	why      error // it was given up
	members  map[string]*member
	isOpen   bool
	lasted   bool      // a watch has lasted, so that what fails later is another failure
	position string    // the version that it has reached
	list     *wideList // nil before it is there, and when it is held no more
	kept     int       // objects and events of namespaces that are alive, since it was judged
	dropped  int       // those of others
}

// newWideWatch returns one without members.
func newWideWatch(o wideOptions) *wideWatch {
	return &wideWatch{wideOptions: o, alive: map[string]int{}, most: maxRanges, from: anyVersion, trial: attempt{pauses: pauses}}
}

// dueLocked reports whether a wide watch may begin.
func (w *wideWatch) dueLocked() bool {
	return len(w.alive) >= fewestNamespaces && (!time.Now().Before(w.trial.at) || w.trial.namespaces > 0 && len(w.alive) >= w.trial.namespaces)
}

// runLocked returns the wide watch, which it begins if that is due; nil if there is none.
func (w *wideWatch) runLocked(opts metav1.ListOptions) *wideRun {
	if w.run != nil || !w.dueLocked() {
		return w.run
	}
	run := &wideRun{coverage: coverage{uncovered: make(chan struct{}, 1)}, opened: make(chan struct{}), members: map[string]*member{}}
	selected := metav1.ListOptions{LabelSelector: opts.LabelSelector, FieldSelector: opts.FieldSelector, ResourceVersion: w.from}
	ctx, stop := context.WithCancelCause(context.Background())
	run.stop = stop
	if w.Run(func(life context.Context) {
		defer context.AfterFunc(life, func() { stop(errOver) })()
		w.follow(ctx, run, selected)
	}) {
		w.run = run
	}
	return w.run
}

// The reasons to give up a wide watch that are no failures of the server. After errCover it goes on.
var (
	errCover    = errors.New("other namespaces are to be covered")
	errOver     = errors.New("the cache has ended")
	errFew      = errors.New("there are few namespaces")
	errWentBack = errors.New("the version of the API server went back")
)

// costlyError says that a wide watch brings too much of other namespaces.
type costlyError struct{ namespaces int } // of the members, when that was found

// Error implements error.
func (e costlyError) Error() string { return "it brings too much of other namespaces" }

// follow runs a wide watch until it ends for good.
func (w *wideWatch) follow(ctx context.Context, run *wideRun, selected metav1.ListOptions) {
	defer run.stop(errOver)
	err := w.open(ctx, run, selected)
	if err == nil {
		err = w.watch(ctx, run, selected)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUpLocked(run, err)
}

// open lists.
func (w *wideWatch) open(ctx context.Context, run *wideRun, opts metav1.ListOptions) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	all, selects, err := w.Survey(ctx)
	if err != nil {
		return fmt.Errorf("the namespaces cannot be counted: %w", err)
	}
	if selects {
		w.gather(ctx)
		w.coverAll(run)
	}
	namespaces := w.count()
	if float64(all)*run.cover.Share() > float64(outside*namespaces) {
		return costlyError{namespaces}
	}
	listed, err := w.list(ctx, run, opts)
	if err != nil {
		return withoutQuery(err)
	}
	list, err := newWideList(run.cover, listed) // no other request is under way, which could change the cover
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != run {
		return errOver
	}
	run.list, run.position, run.isOpen, run.between = list, list.version, true, true
	w.from = anyVersion
	close(run.opened)
	w.Logger.V(1).Info("Namespaces of a kind are watched together", "namespaces", namespaces)
	return nil
}

// count returns how many namespaces are alive.
func (w *wideWatch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.alive)
}

// countLocked counts what has come of a namespace.
func (w *wideWatch) countLocked(run *wideRun, namespace string, n int) {
	if w.alive[namespace] > 0 {
		run.kept += n
	} else {
		run.dropped += n
	}
}

// judgeLocked returns a costlyError if more has come of other namespaces than is worth it, and errCover if a cover of today brings less.
func (w *wideWatch) judgeLocked(run *wideRun) error {
	costly := run.dropped > outside*run.kept+tolerated
	run.kept, run.dropped = 0, 0
	switch {
	case !costly:
		run.judged = false
		return nil
	case run.cover != nil && !run.judged && !slices.Equal(run.cover, cover.Of(maps.Keys(w.alive), w.most)):
		run.judged = true
		return errCover
	}
	return costlyError{len(w.alive)}
}

// letGo lets go of the list, because nobody will come for it any more, and judges what it has brought.
func (w *wideWatch) letGo(run *wideRun) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for namespace, n := range run.list.objects {
		w.countLocked(run, namespace, n)
	}
	run.list = nil
	return w.judgeLocked(run)
}

// watch watches, again and again, until that fails for good.
func (w *wideWatch) watch(ctx context.Context, run *wideRun, opts metav1.ListOptions) error {
	held := time.NewTimer(heldFor)
	defer held.Stop()
	heard := &idleTimeout{limit: w.Silence, cut: func(time.Duration) {}}
	begun := time.Time{} // of a watch that goes on, with one cover or several
	for failed := reopening; ; {
		w.tell(run, (*Failures).begin)
		stream, err := w.stream(ctx, run, heard, opts)
		refused := err != nil
		if !refused {
			w.tell(run, (*Failures).answered)
			if begun.IsZero() {
				begun = time.Now()
			}
			err = w.route(ctx, run, stream, held.C)
			if stream.Stop(); time.Since(begun) > longEnough {
				w.mu.Lock()
				run.lasted = true
				w.mu.Unlock()
				failed = reopening
			}
		}
		w.atPause(run)
		switch {
		case ctx.Err() == nil && (errors.Is(err, errCover) || isTooLong(err) && w.shorten(run)):
			continue
		case ctx.Err() != nil || isFinal(err):
			return err
		case failed.Steps == 0:
			return err
		}
		if refused || errors.As(err, new(apierrors.APIStatus)) {
			w.tell(run, func(f *Failures) { f.noteShared(ctx, err) })
		}
		begun = time.Time{}
		select {
		case <-time.After(failed.Step()):
		case <-ctx.Done():
			return err
		}
	}
}

// isFinal reports whether a wide watch cannot go on after an error.
func isFinal(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests || IsUndecodable(err)
	}
	return errors.As(err, new(costlyError)) || errors.As(err, new(nothingBrought)) || errors.Is(err, errWentBack)
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// stream goes on from the version that a run has reached.
func (w *wideWatch) stream(ctx context.Context, run *wideRun, heard *idleTimeout, opts metav1.ListOptions) (watch.Interface, error) {
	opts.ResourceVersion, opts.Watch, opts.AllowWatchBookmarks = run.position, true, true
	opts.TimeoutSeconds = ptr.To(int64((5 + 5*rand.Float64()) * 60)) // as a Reflector does
	if run.cover != nil {
		opts.ShardSelector = w.coverAll(run).Selector()
	}
	open := func(ctx context.Context) (watch.Interface, error) {
		stream, err := w.Source.Watch(ctx, opts)
		return stream, withoutQuery(err)
	}
	if w.Silence <= 0 { // it may be silent for ever
		return open(ctx)
	}
	return heard.watch(ctx, opts, func(e watch.Event) watch.Event { return e }, open)
}

// withoutQuery takes the query out of an error of a request. It has the shard selector, which is long.
func withoutQuery(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		to, _, _ := strings.Cut(failed.URL, "?")
		return fmt.Errorf("%s %s: %w", failed.Op, to, failed.Err)
	}
	return err
}

// route queues events until the stream ends, or is to cover further namespaces, and returns why.
func (w *wideWatch) route(ctx context.Context, run *wideRun, stream watch.Interface, held <-chan time.Time) error {
	var gathered <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-run.uncovered:
			if gathered == nil {
				gathered = time.After(gathering)
			}
		case <-gathered:
			return errCover
		case <-held:
			if err := w.letGo(run); err != nil {
				return err
			}
		case event, open := <-stream.ResultChan():
			switch {
			case !open:
				return errors.New("the watch has ended")
			case event.Type == watch.Error:
				return apierrors.FromObject(event.Object)
			}
			namespace, version, err := identify(event.Object)
			if err == nil {
				err = w.deliver(run, event, namespace, version)
			}
			if err != nil {
				return err
			}
		}
	}
}

// tell tells the Failures of the members what becomes of a request for all namespaces: it is as good as one for each.
func (w *wideWatch) tell(run *wideRun, of func(*Failures)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, member := range run.members {
		member.tell(of)
	}
}

// identify returns the namespace of an object of a watch, and its version.
func identify(obj runtime.Object) (namespace, version string, err error) {
	if u, ok := obj.(*undecoded); ok {
		namespace, version, err = u.identify()
	} else if m, accessible := obj.(metav1.Object); accessible {
		namespace, version = m.GetNamespace(), m.GetResourceVersion()
	}
	if err == nil && version == "" {
		err = fmt.Errorf("an event has no version, but a %T", obj)
	}
	return namespace, version, err
}

// deliver queues an event for the member of its namespace, or a bookmark for all.
func (w *wideWatch) deliver(run *wideRun, event watch.Event, namespace, version string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !reaches(version, run.position) {
		return errWentBack
	}
	run.position = version
	if event.Type == watch.Bookmark {
		for _, member := range run.members {
			member.pushLocked(queued{watch.Event{Type: watch.Bookmark}, version})
		}
		return w.judgeLocked(run)
	}
	w.countLocked(run, namespace, 1)
	if run.list != nil {
		run.list.changed[namespace] = true
	}
	if member := run.members[namespace]; member != nil {
		member.pushLocked(queued{event, version})
	} else if u, ok := event.Object.(*undecoded); ok {
		u.release()
	}
	return nil
}

// bookmark returns the object of a bookmark, which belongs to the caller.
func (w *wideWatch) bookmark(version string) runtime.Object {
	obj := w.Source.Example().DeepCopyObject()
	if m, err := meta.Accessor(obj); err == nil {
		m.SetResourceVersion(version)
	}
	return obj
}

// giveUpLocked lets each namespace go on by itself. What joins from then on may begin another wide watch: this one may take a while to end.
func (w *wideWatch) giveUpLocked(run *wideRun, why error) {
	if w.run != run {
		return // it was given up before
	}
	run.stop(why)
	run.why = why
	w.run, w.from = nil, anyVersion
	if !run.isOpen {
		close(run.opened)
	}
	if run.lasted {
		w.trial.pauses = pauses
	}
	if isTooLong(why) { // fewer ranges have not helped
		w.most = maxRanges
	}
	logger, costly := w.Logger, costlyError{}
	switch {
	case errors.Is(why, errFew), errors.Is(why, errOver):
		logger = logger.V(1)
	case errors.As(why, &costly):
		w.trial.at, w.trial.namespaces = time.Now().Add(costlyFor), 2*costly.namespaces
	case run.lasted && isExpired(why): // all list again, at once
		w.from = run.position
	default:
		w.trial.at, w.trial.namespaces = time.Now().Add(w.trial.pauses.Step()), 0
	}
	logger.Info("A kind is watched in each namespace by itself, and not in all together", "namespaces", len(w.alive), "reason", why.Error())
	for namespace, member := range run.members {
		delete(run.members, namespace)
		member.wake()
	}
	run.covered.Notify()
}
