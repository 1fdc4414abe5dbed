// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
)

// UserAgent is the last word of the user agent of a Follower's requests. By it a test tells these requests from the program's own.
const UserAgent = "tarn-served"

// IsOwn reports whether a user agent is that of a Follower.
func IsOwn(agent string) bool { return strings.HasSuffix(agent, " "+UserAgent) }

var (
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// blindTo reports whether a kind of this version may come without an event. Callers hold f.mu.
func (f *Follower) blindTo(gv schema.GroupVersion) bool { return len(f.blind) > 0 || f.servers.Has(gv) }

// idleTimeout is how long a watch may bring nothing: API servers send a bookmark about every minute.
const idleTimeout = 3 * time.Minute

// definitions are CRDs or APIServices, which say what kinds are served: what a Reflector writes to. Nothing of them is kept but the
// versions that other servers may serve.
type definitions struct {
	*Follower
	schema.GroupVersionResource
}

var _ toolscache.ReflectorStore = (*definitions)(nil)

// watch lists and watches the metadata of the definitions until ctx ends. While that is refused it is tried again after each
// longestPause.
func (d *definitions) watch(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		err := d.watchOnce(ctx)
		blind := !apierrors.IsNotFound(err) // a server that does not serve them has none
		if ctx.Err() == nil && d.setBlind(blind) && blind {
			d.all()
			d.logger.Info("A resource cannot be watched that tells which kinds are served: until it can, the cache asks discovery for optional kinds that are absent, at least once a minute", "resource", d.Resource, "reason", err.Error())
		}
	}, longestPause, 0.1, true)
}

// setBlind notes whether the definitions may not be watched, and reports whether that is new.
func (d *definitions) setBlind(blind bool) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = d.blind.Has(d.Resource) != blind
	if blind {
		d.blind.Insert(d.Resource)
	} else {
		d.blind.Delete(d.Resource)
	}
	return changed
}

// watchOnce lists and watches the definitions until ctx ends, or until that is not allowed or they are not served: then it returns the
// error. The times between two attempts are client-go's. A 401 ends nothing: tokens are rotated.
func (d *definitions) watchOnce(ctx context.Context) error {
	source, err := listwatch.Metadata(listwatch.Target{
		Config: d.config, HTTPClient: d.client, Kind: d.GroupVersion().WithKind(d.Resource), Resource: d.GroupVersionResource,
	})
	if err != nil {
		return err
	}
	var waits sync.WaitGroup
	defer waits.Wait()
	lw := listwatch.New(source, listwatch.Options{Bookmarks: true, IdleTimeout: idleTimeout, Cut: func(time.Duration) {}})
	reflector := toolscache.NewReflectorWithOptions(lw, nil, d, toolscache.ReflectorOptions{
		TypeDescription: d.Resource, Clock: informer.ClockUntil(ctx, &waits),
	})
	informer.Retry(ctx, clock.RealClock{}, func(ctx context.Context) (done bool) {
		err = reflector.ListAndWatchWithContext(logr.NewContext(ctx, logr.Discard()))
		return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
	})
	return err
}

// Add implements toolscache.ReflectorStore.
func (d *definitions) Add(obj any) error { return d.tell(obj, changed) }

// Update implements toolscache.ReflectorStore.
func (d *definitions) Update(obj any) error { return d.tell(obj, changed) }

// Delete implements toolscache.ReflectorStore.
func (d *definitions) Delete(obj any) error { return d.tell(obj, deleted) }

// Resync implements toolscache.ReflectorStore.
func (d *definitions) Resync() error { return nil }

// Replace asks for everything: of what has happened since the list before, nothing is known.
func (d *definitions) Replace(all []any, _ string) error {
	d.setBlind(false)
	if d.GroupVersionResource == apiServices {
		d.mu.Lock()
		d.servers = sets.New[schema.GroupVersion]()
		d.mu.Unlock()
		for _, obj := range all {
			m := obj.(*metav1.PartialObjectMetadata)
			d.leads(m, d.named(m), changed)
		}
	}
	d.all()
	return nil
}

// tell tells of the group in the name of a CRD, or of the version and group in that of an APIService. A definition that is
// being deleted serves its kinds until it is gone. The APIServices that the server has made tell nothing that CRDs do not.
func (d *definitions) tell(obj any, what news) error {
	m := obj.(*metav1.PartialObjectMetadata)
	of := d.named(m)
	if d.GroupVersionResource == apiServices && !d.leads(m, of, what) {
		return nil
	}
	if what == deleted || m.DeletionTimestamp == nil {
		d.event(of.GroupVersion(), of.Resource, what)
	}
	return nil
}

// named returns what the name of a definition says: the group and the resource of a CRD, the group and the version of an APIService.
func (d *definitions) named(m *metav1.PartialObjectMetadata) schema.GroupVersionResource {
	first, group, _ := strings.Cut(m.Name, ".")
	if d.GroupVersionResource == apiServices {
		return schema.GroupVersionResource{Group: group, Version: first}
	}
	return schema.GroupVersionResource{Group: group, Resource: first}
}

// automanaged is the label of an APIService for which the server itself is responsible: AutoRegisterManagedLabel of
// k8s.io/kube-aggregator/pkg/controllers/autoregister.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// leads notes whether an APIService may lead to another server, and reports whether it does or did. That server may be updated
// without an event.
func (d *definitions) leads(m *metav1.PartialObjectMetadata, of schema.GroupVersionResource, what news) bool {
	gv := of.GroupVersion()
	_, own := m.Labels[automanaged]
	d.mu.Lock()
	defer d.mu.Unlock()
	did := d.servers.Has(gv)
	if own || what == deleted {
		d.servers.Delete(gv)
	} else {
		d.servers.Insert(gv)
	}
	return !own || did
}

// all asks for all versions.
func (f *Follower) all() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gv, v := range f.versions {
		for _, k := range v.kinds {
			k.news = possible // of what has happened meanwhile nothing is known
		}
		f.happenedLocked(gv, v)
	}
}

// event has versions asked for whose kinds a CRD or an APIService may serve that was created, changed or deleted. An APIService has
// a version and no resource.
func (f *Follower) event(of schema.GroupVersion, resource string, what news) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gv, v := range f.versions {
		if gv.Group != of.Group || of.Version != "" && gv.Version != of.Version {
			continue
		}
		ask := what == deleted && v.failed
		for _, k := range v.kinds {
			ask = k.hear(resource, what) || ask
		}
		if ask {
			f.happenedLocked(gv, v)
		}
	}
}

// hear takes an event of a resource, or of all if that is empty, and reports whether it may have changed what is known of the kind.
// A kind that is absent may come with another resource than before.
func (k *kind) hear(resource string, what news) bool {
	if resource != "" && resource != k.resource && (what == deleted || k.state.Mapping != nil && k.news != deleted) {
		return false
	}
	k.lost = false
	if what == deleted && k.news == none && !k.state.served() {
		return false // that is known
	}
	k.news = what
	return true
}
