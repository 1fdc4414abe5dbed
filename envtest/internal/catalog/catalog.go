// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	discoveryconversion "k8s.io/apiserver/pkg/apis/apidiscovery/v2"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/tarn-dev/tarn/internal/signal"
)

const (
	defaultGroupPriority   = 1000 // of a group for which nobody asked for another one
	defaultVersionPriority = 15
)

// Catalog knows every group, version and resource that one root path of the server offers, and serves it as aggregated
// discovery and as a plain list of groups. Being our own it can also be waited on, which upstream's manager of the same
// interface cannot, and it does not log each group that it learns.
//
// It is safe for concurrent use.
type Catalog struct {
	codecs serializer.CodecFactory
	plain  runtime.NegotiatedSerializer

	mu         sync.Mutex
	changed    signal.Broadcast
	versions   map[catalogKey]apidiscoveryv2.APIVersionDiscovery // guarded by mu
	priorities map[catalogKey]Priority                           // guarded by mu
	document   *document                                         // guarded by mu; nil when it has to be made anew
	callback   func()                                            // guarded by mu; called on each change
}

// catalogKey names a version and its source: the lowest source wins.
type catalogKey struct {
	source aggregated.Source
	metav1.GroupVersion
}

// Priority orders groups and the versions in a group; higher comes first.
type Priority struct{ Group, Version int }

// document is the catalog at one point in time. It never changes.
type document struct {
	list apidiscoveryv2.APIGroupDiscoveryList
	etag string
}

// New returns an empty catalog; plain writes the answers that are not aggregated.
func New(plain runtime.NegotiatedSerializer) *Catalog {
	return &Catalog{
		codecs:     discoveryCodecs(),
		plain:      plain,
		versions:   map[catalogKey]apidiscoveryv2.APIVersionDiscovery{},
		priorities: map[catalogKey]Priority{},
	}
}

// discoveryCodecs are immutable and the same for every server.
var discoveryCodecs = sync.OnceValue(func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	utilruntime.Must(apidiscoveryv2.AddToScheme(scheme))
	utilruntime.Must(apidiscoveryv2beta1.AddToScheme(scheme))
	utilruntime.Must(discoveryconversion.RegisterConversions(scheme))
	return serializer.NewCodecFactory(scheme)
})

// changeLocked makes readers see what was changed.
func (c *Catalog) changeLocked() {
	c.document = nil
	c.changed.Notify()
	if c.callback != nil {
		c.callback()
	}
}

// set adds or replaces a version.
func (c *Catalog) set(source aggregated.Source, group string, v apidiscoveryv2.APIVersionDiscovery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions[catalogKey{source, metav1.GroupVersion{Group: group, Version: v.Version}}] = v
	c.changeLocked()
}

// prioritize orders a version among others.
func (c *Catalog) prioritize(source aggregated.Source, gv metav1.GroupVersion, p Priority) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.priorities[catalogKey{source, gv}] = p
	c.changeLocked()
}

// remove forgets the versions that match.
func (c *Catalog) remove(matches func(catalogKey) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.versions {
		if matches(key) {
			delete(c.versions, key)
			delete(c.priorities, key)
		}
	}
	c.changeLocked()
}

// serves reports whether all of the resources are offered, and returns a channel that is closed when that may have changed.
func (c *Catalog) serves(resources ...schema.GroupVersionResource) (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range resources {
		if !c.servesLocked(r) {
			return false, c.changed.Wait()
		}
	}
	return true, c.changed.Wait()
}

// lacks reports whether none of the resources is offered, and returns a channel that is closed when that may have changed.
func (c *Catalog) lacks(resources ...schema.GroupVersionResource) (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(resources, c.servesLocked), c.changed.Wait()
}

func (c *Catalog) servesLocked(r schema.GroupVersionResource) bool {
	for key, v := range c.versions {
		if key.Group != r.Group || key.Version != r.Version {
			continue
		}
		if slices.ContainsFunc(v.Resources, func(d apidiscoveryv2.APIResourceDiscovery) bool { return d.Resource == r.Resource }) {
			return true
		}
	}
	return false
}

// paths returns where the versions of a source are served, in no order.
func (c *Catalog) paths(source aggregated.Source) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var paths []string
	for key := range c.versions {
		if key.source == source {
			paths = append(paths, "apis/"+key.Group+"/"+key.Version)
		}
	}
	return paths
}

// current returns the newest document.
func (c *Catalog) current() (*document, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.document != nil {
		return c.document, nil
	}
	list := apidiscoveryv2.APIGroupDiscoveryList{Items: c.groupsLocked()}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encode the discovery document: %w", err)
	}
	sum := sha256.Sum256(data)
	c.document = &document{list: list, etag: hex.EncodeToString(sum[:])}
	return c.document, nil
}

// groupsLocked sorts groups and their versions by priority; names decide between equals.
func (c *Catalog) groupsLocked() []apidiscoveryv2.APIGroupDiscovery {
	byGroup := map[string]map[string]catalogKey{}
	for key := range c.versions {
		if byGroup[key.Group] == nil {
			byGroup[key.Group] = map[string]catalogKey{}
		}
		if best, ok := byGroup[key.Group][key.Version]; !ok || key.source < best.source {
			byGroup[key.Group][key.Version] = key
		}
	}
	groups := make([]apidiscoveryv2.APIGroupDiscovery, 0, len(byGroup))
	priorities := map[string]int{}
	for name, versions := range byGroup {
		group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, key := range c.sortLocked(versions) {
			group.Versions = append(group.Versions, c.versions[key])
			priorities[name] = max(priorities[name], c.priorityLocked(key).Group)
		}
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b apidiscoveryv2.APIGroupDiscovery) int {
		return cmp.Or(cmp.Compare(priorities[b.Name], priorities[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	return groups
}

// sortLocked returns the versions of one group, best first.
func (c *Catalog) sortLocked(versions map[string]catalogKey) []catalogKey {
	keys := make([]catalogKey, 0, len(versions))
	for _, key := range versions {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b catalogKey) int {
		return cmp.Or(cmp.Compare(c.priorityLocked(b).Version, c.priorityLocked(a).Version),
			version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	return keys
}

func (c *Catalog) priorityLocked(key catalogKey) Priority {
	if p, ok := c.priorities[key]; ok {
		return p
	}
	return Priority{defaultGroupPriority, defaultVersionPriority}
}

// WaitServed returns when discovery lists the resources.
func (c *Catalog) WaitServed(ctx context.Context, resources []schema.GroupVersionResource) error {
	if err := until(ctx, func() (bool, <-chan struct{}) { return c.serves(resources...) }); err != nil {
		return fmt.Errorf("wait until the CRDs are in discovery: %w", err)
	}
	return nil
}

// WaitGone returns when discovery lists none of the resources.
func (c *Catalog) WaitGone(ctx context.Context, resources []schema.GroupVersionResource) error {
	if err := until(ctx, func() (bool, <-chan struct{}) { return c.lacks(resources...) }); err != nil {
		return fmt.Errorf("wait until deleted CRDs are not in discovery: %w", err)
	}
	return nil
}

// until asks again at each change until the answer is yes.
func until(ctx context.Context, ask func() (bool, <-chan struct{})) error {
	for {
		yes, changed := ask()
		if yes {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
