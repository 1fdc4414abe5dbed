// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/listwatch"
	"github.com/tarn-dev/tarn/internal/relist"
)

var (
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// foreign leaves out the server's own APIServices: CRDs tell the same. CRDs do not have the label, which is AutoRegisterManagedLabel of
// k8s.io/kube-aggregator/pkg/controllers/autoregister.
var foreign, _ = labels.Parse("!kube-aggregator.kubernetes.io/automanaged")

// idleTimeout is how long a watch may bring nothing: API servers send a bookmark about every minute.
const idleTimeout = 3 * time.Minute

// definitions are CRDs or APIServices, which say what kinds are served: what a Reflector lists and watches, and writes to. Nothing of
// them is kept but the versions that other servers may serve.
type definitions struct {
	*Follower
	schema.GroupVersionResource
	listwatch.Source
	blind bool // they may not be watched now; guarded by mu
}

// watch lists and watches the metadata of the definitions until ctx ends. The times between two attempts are client-go's.
func (d *definitions) watch(ctx context.Context) {
	var waits sync.WaitGroup
	defer waits.Wait()
	lw := listwatch.New(d, listwatch.Options{
		Selector: listwatch.Selector{Label: foreign}, Bookmarks: true, IdleTimeout: idleTimeout, Cut: func(time.Duration) {},
	})
	reflector := toolscache.NewReflectorWithOptions(lw, nil, d, toolscache.ReflectorOptions{
		TypeDescription: d.Resource, Clock: relist.ClockUntil(ctx, clock.RealClock{}, &waits),
	})
	relist.Retry(ctx, clock.RealClock{}, func(ctx context.Context) (done bool) {
		err := reflector.ListAndWatchWithContext(logr.NewContext(ctx, logr.Discard()))
		if (apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)) && d.setBlind(true) {
			d.logger.Info("A resource cannot be watched that tells which kinds are served: until it can, the cache asks discovery for optional kinds that are absent, at least once a minute", "resource", d.Resource, "reason", err.Error())
		} else if apierrors.IsNotFound(err) {
			d.setBlind(false) // a server that does not serve them has none
		}
		return false
	})
}

// Watch implements listwatch.Source.
func (d *definitions) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := d.Source.Watch(ctx, opts)
	if err == nil {
		d.setBlind(false)
	}
	return w, err
}

// setBlind notes whether the definitions may not be watched, and reports whether that is new: then nothing is known of what happens, or
// has happened until now.
func (d *definitions) setBlind(blind bool) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blind == blind {
		return false
	}
	d.blind = blind
	d.allLocked()
	return true
}

// blindTo reports whether a kind of this version may come without an event. Callers hold f.mu.
func (f *Follower) blindTo(gv schema.GroupVersion) bool {
	return f.foreign.Has(gv) || slices.ContainsFunc(f.definitions, func(d *definitions) bool { return d.blind })
}

// Replace implements toolscache.ReflectorStore. Events since the list before are not known.
func (d *definitions) Replace(all []any, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.GroupVersionResource == apiServices {
		d.foreign = sets.New[schema.GroupVersion]()
		for _, obj := range all {
			d.foreign.Insert(d.of(obj).GroupVersion())
		}
	}
	if !d.blind {
		d.allLocked()
	}
	return nil
}

// Add implements toolscache.ReflectorStore.
func (d *definitions) Add(obj any) error { return d.event(d.of(obj), changed) }

// Update implements toolscache.ReflectorStore.
func (d *definitions) Update(obj any) error {
	if obj.(*metav1.PartialObjectMetadata).DeletionTimestamp != nil {
		return nil // a definition that is being deleted serves its kinds until it is gone
	}
	return d.event(d.of(obj), changed)
}

// Delete implements toolscache.ReflectorStore.
func (d *definitions) Delete(obj any) error { return d.event(d.of(obj), deleted) }

// Resync implements toolscache.ReflectorStore.
func (d *definitions) Resync() error { return nil }

// of returns what the name of a definition says: the group and the resource of a CRD, the group and the version of an APIService.
func (d *definitions) of(obj any) schema.GroupVersionResource {
	first, group, _ := strings.Cut(obj.(*metav1.PartialObjectMetadata).Name, ".")
	if d.GroupVersionResource == apiServices {
		return schema.GroupVersionResource{Group: group, Version: first}
	}
	return schema.GroupVersionResource{Group: group, Resource: first}
}

// event has versions asked for whose kinds a CRD may serve, which has a resource and no version, or an APIService, which has a version
// and no resource. The server of an APIService may be updated without an event, and CRDs may serve its version when it is deleted.
func (f *Follower) event(of schema.GroupVersionResource, what news) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of.Resource == "" && what == deleted {
		f.foreign.Delete(of.GroupVersion())
		what = changed
	} else if of.Resource == "" {
		f.foreign.Insert(of.GroupVersion())
	}
	for gvk, k := range f.kinds {
		if gvk.Group == of.Group && (of.Version == "" || of.Version == gvk.Version) && k.hear(of.Resource, what) {
			f.askLocked(gvk.GroupVersion())
		}
	}
	return nil
}

// allLocked asks for all versions.
func (f *Follower) allLocked() {
	for gvk, k := range f.kinds {
		if k.news != lost {
			k.news = possible
		}
		f.askLocked(gvk.GroupVersion())
	}
}
