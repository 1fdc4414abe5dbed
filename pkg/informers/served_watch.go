// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
)

// watchCRDs watches the metadata of CRDs until ctx ends. While they may not be watched, discovery is polled, and
// the watch is tried again after each longestPoll.
func (s *Served) watchCRDs(ctx context.Context) {
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	for ctx.Err() == nil {
		err := s.watch(ctx, kind, "customresourcedefinitions", &s.polls)
		if ctx.Err() == nil && s.begins(&s.polls) {
			s.logger.Info("CustomResourceDefinitions cannot be watched: until they can, the cache asks discovery for optional kinds, at most once a second and at least once a minute", "reason", err.Error())
		}
		pause(ctx, longestPoll)
	}
}

// watchAPIServices watches the metadata of APIServices until ctx ends. A server without any needs no more. With
// some that the program may not watch, what is not served is looked at every minute, and the watch is tried again.
func (s *Served) watchAPIServices(ctx context.Context) {
	kind := schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
	for ctx.Err() == nil {
		err := s.watch(ctx, kind, "apiservices", &s.blind)
		if cause, _ := causeOf(orNothing(err)); cause == NotServed {
			s.ends(&s.blind)
			return
		}
		if ctx.Err() == nil && s.begins(&s.blind) {
			s.logger.Info("APIServices cannot be watched: until they can, the cache asks discovery for optional kinds that are not served once a minute", "reason", err.Error())
		}
		pause(ctx, longestPoll)
	}
}

// begins sets a flag that says that something cannot be watched, and reports whether that is new. Then it looks at
// everything.
func (s *Served) begins(flag *bool) (changed bool) {
	s.mu.Lock()
	changed, *flag = !*flag, true
	s.mu.Unlock()
	if changed {
		s.look(schema.GroupVersion{}, false)
	}
	return changed
}

// ends is the opposite of begins, and looks at nothing.
func (s *Served) ends(flag *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*flag = false
}

// pause returns after about d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(wait.Jitter(d, 0.1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// watch watches the metadata of the objects that say what is served, until ctx ends or that is not possible. Each
// list that is complete clears a flag that says that they cannot be watched.
func (s *Served) watch(ctx context.Context, kind schema.GroupVersionKind, resource string, fails *bool) error {
	source, err := listwatch.Metadata(listwatch.Target{
		Config: s.config, HTTPClient: s.client, Kind: kind, Resource: kind.GroupVersion().WithResource(resource),
	})
	if err != nil {
		return err
	}
	return s.reflect(ctx, source, kind.Kind, &servedStore{s, fails})
}

// reflect lists and watches until ctx ends, or until that is not allowed or the kind is not served: then
// it returns the error. The times between two attempts are client-go's. A 401 ends nothing: tokens are rotated.
func (s *Served) reflect(ctx context.Context, source listwatch.Source, kind string, to *servedStore) (err error) {
	var waits sync.WaitGroup
	defer waits.Wait()
	lw := listwatch.New(source, listwatch.Options{Bookmarks: true, Silence: defaultWatchSilence, Cut: func(time.Duration) {}})
	reflector := toolscache.NewReflectorWithOptions(lw, nil, to, toolscache.ReflectorOptions{
		TypeDescription: kind, Clock: informer.ClockUntil(ctx, &waits),
	})
	backoff := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}
	_ = backoff.DelayWithReset(clock.RealClock{}, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err = reflector.ListAndWatchWithContext(logr.NewContext(ctx, logr.Discard()))
		cause, _ := causeOf(orNothing(err))
		return cause == Forbidden || cause == NotServed || cause == NotWatchable, nil
	})
	return err
}

// servedStore is where a Reflector writes what says which kinds are served. It keeps nothing of them but the names of those
// few APIServices that lead to another server.
type servedStore struct {
	served *Served
	fails  *bool // is cleared by a complete list; guarded by served.mu
}

var _ toolscache.ReflectorStore = (*servedStore)(nil)

// changed looks at the group in the name of a CRD, or the version and group in that of an APIService.
func (s *servedStore) changed(obj any, deleted bool) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	first, group, _ := strings.Cut(m.GetName(), ".")
	gv := schema.GroupVersion{Group: group}
	if isAPIService(obj) {
		gv.Version, first = first, ""
		s.served.noteAPIService(m, deleted)
	}
	if deleted {
		s.served.deleted(gv, first)
	} else {
		s.served.look(gv, m.GetDeletionTimestamp() != nil)
	}
	return nil
}

func isAPIService(obj any) bool {
	p, ok := obj.(*metav1.PartialObjectMetadata)
	return ok && p.Kind == "APIService"
}

// automanaged is the label of an APIService for which the server itself is responsible: AutoRegisterManagedLabel of
// k8s.io/kube-aggregator/pkg/controllers/autoregister.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// noteAPIService notes whether an APIService may lead to another server. kube-apiserver labels those that it has made for its
// own kinds and for CRDs.
func (s *Served) noteAPIService(m metav1.Object, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, own := m.GetLabels()[automanaged]; own || deleted {
		delete(s.others, m.GetName())
	} else {
		s.others[m.GetName()] = struct{}{}
	}
}

func (s *Served) forgetAPIServices() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.others)
}

func (s *servedStore) Add(obj any) error    { return s.changed(obj, false) }
func (s *servedStore) Update(obj any) error { return s.changed(obj, false) }
func (s *servedStore) Delete(obj any) error { return s.changed(obj, true) }
func (s *servedStore) Resync() error        { return nil }

// Replace looks at everything: of what has happened since the list before, nothing is known.
func (s *servedStore) Replace(all []any, _ string) error {
	s.served.ends(s.fails)
	for i, obj := range all {
		m, err := meta.Accessor(obj)
		if err != nil || !isAPIService(obj) {
			break
		}
		if i == 0 {
			s.served.forgetAPIServices()
		}
		s.served.noteAPIService(m, false)
	}
	s.served.look(schema.GroupVersion{}, false)
	return nil
}
