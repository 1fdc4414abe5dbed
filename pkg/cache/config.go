// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
)

// defaultSyncPeriod is the default of controller-runtime, so rare that its cost does not matter.
const defaultSyncPeriod = 10 * time.Hour

// scopeConfigs says how a kind is cached. The key is a namespace that is cached on its own. The key
// AllNamespaces stands for all other namespaces, or for a cluster-scoped kind.
type scopeConfigs map[string]Config

// kindConfigs says how a kind is cached: namespaced if that is what it is, and otherwise cluster. See kindMaps.
type kindConfigs struct {
	namespaced, cluster scopeConfigs
	live                bool // namespaced is for those of the start
}

// objectConfigs are kindConfigs with the settings of the kind for a namespace that has none.
type objectConfigs struct {
	kindConfigs
	all Config
}

// merge returns for each setting the first value that is set. The configs are in the order of their
// precedence. No other function lists the settings of a Config.
func merge(configs ...Config) Config {
	var merged Config
	for _, c := range configs {
		if merged.LabelSelector == nil {
			merged.LabelSelector = c.LabelSelector
		}
		if merged.FieldSelector == nil {
			merged.FieldSelector = c.FieldSelector
		}
		if merged.Transform == nil {
			merged.Transform = c.Transform
		}
		if merged.UnsafeDisableDeepCopy == nil {
			merged.UnsafeDisableDeepCopy = c.UnsafeDisableDeepCopy
		}
		if merged.EnableWatchBookmarks == nil {
			merged.EnableWatchBookmarks = c.EnableWatchBookmarks
		}
		if merged.SyncPeriod == nil {
			merged.SyncPeriod = c.SyncPeriod
		}
	}
	return merged
}

// defaultConfig returns the Default* settings.
func defaultConfig(o *Options) Config {
	return Config{
		LabelSelector:         o.DefaultLabelSelector,
		FieldSelector:         o.DefaultFieldSelector,
		Transform:             o.DefaultTransform,
		UnsafeDisableDeepCopy: o.DefaultUnsafeDisableDeepCopy,
		EnableWatchBookmarks:  o.DefaultEnableWatchBookmarks,
		SyncPeriod:            o.SyncPeriod,
	}
}

// objectConfig returns the settings of a kind.
func objectConfig(b ByObject) Config {
	return Config{
		LabelSelector:         b.Label,
		FieldSelector:         b.Field,
		Transform:             b.Transform,
		UnsafeDisableDeepCopy: b.UnsafeDisableDeepCopy,
		EnableWatchBookmarks:  b.EnableWatchBookmarks,
		SyncPeriod:            b.SyncPeriod,
	}
}

// namespacedDefaults returns how namespaced kinds without settings of their own are cached.
func namespacedDefaults(o *Options) (scopeConfigs, error) {
	configs := scopeConfigs{}
	for namespace, c := range o.DefaultNamespaces {
		configs[namespace] = merge(c, defaultConfig(o))
	}
	return finish(configs, defaultConfig(o))
}

// clusterDefaults returns how cluster-scoped kinds without settings of their own are cached.
func clusterDefaults(o *Options) (scopeConfigs, error) {
	return finish(nil, defaultConfig(o))
}

// byObjectConfigs returns how the kinds in Options.ByObject are cached. The order of precedence is:
// the settings of a namespace of the kind, the settings of the kind, the settings in
// DefaultNamespaces, the defaults. A kind whose Namespaces is nil has the namespaces of
// DefaultNamespaces, and their settings then come before the settings of the kind.
func byObjectConfigs(o *Options, kinds *namespacedKinds, live bool) (map[schema.GroupVersionKind]objectConfigs, error) {
	byGVK := make(map[schema.GroupVersionKind]objectConfigs, len(o.ByObject))
	for obj, b := range o.ByObject {
		gvk, namespaced, err := identify(o, kinds, obj)
		if err != nil {
			return nil, fmt.Errorf("cache option ByObject: %w", err)
		}
		if _, ok := byGVK[gvk]; ok {
			return nil, fmt.Errorf("cache option ByObject: there are two entries for %s; merge them into one, which holds for all its representations", object.Describe(gvk))
		}
		if !namespaced && b.Namespaces != nil {
			return nil, fmt.Errorf("cache option ByObject: type %T is not namespaced, but its ByObject.Namespaces setting is not nil; remove it", obj)
		}
		if byGVK[gvk], err = configsOf(o, b, namespaced, kinds.vary(gvk), live); err != nil {
			return nil, fmt.Errorf("cache option ByObject[%T]: %w", obj, err)
		}
	}
	return byGVK, nil
}

// configsOf returns how a kind is cached. A kind that may come with another scope has both. If live is set, the namespaces of
// DefaultNamespaces are live.
func configsOf(o *Options, b ByObject, namespaced, varies, live bool) (of objectConfigs, err error) {
	namespaces := b.Namespaces
	of.live = live && namespaces == nil && (namespaced || varies)
	if namespaces == nil && (namespaced || varies) {
		namespaces = o.DefaultNamespaces
	}
	of.all = merge(objectConfig(b), defaultConfig(o))
	if len(namespaces) == 0 && !of.live || varies {
		if of.cluster, err = finish(nil, of.all); err != nil {
			return of, err
		}
	}
	if of.live { // all is for namespaces that enter
		if err := checkSelectors(of.all); err != nil {
			return of, err
		}
	}
	if len(namespaces) == 0 {
		return of, nil
	}
	of.namespaced = scopeConfigs{}
	for namespace, c := range namespaces {
		of.namespaced[namespace] = merge(c, objectConfig(b), o.DefaultNamespaces[namespace], defaultConfig(o))
	}
	of.namespaced, err = finish(of.namespaced, of.all)
	return of, err
}

func identify(o *Options, kinds *namespacedKinds, obj client.Object) (gvk schema.GroupVersionKind, namespaced bool, err error) {
	if gvk, err = kindOf(obj, o.Scheme); err != nil {
		return gvk, false, err
	}
	if namespaced, err = kinds.has(context.Background(), gvk); err != nil {
		return gvk, false, err
	}
	return gvk, namespaced, nil
}

// finish completes the configurations of a kind. If there is no namespace, all namespaces are
// cached under one configuration. AllNamespaces excludes the namespaces that are cached on their
// own. Selectors that cannot be sent are refused. Names that no namespace can have are refused too,
// because the API server would answer with empty lists.
func finish(configs scopeConfigs, all Config) (scopeConfigs, error) {
	if len(configs) == 0 {
		configs = scopeConfigs{AllNamespaces: all}
	}
	for namespace, c := range configs {
		if faults := validation.ValidateNamespaceName(namespace, false); namespace != AllNamespaces && len(faults) > 0 {
			return nil, fmt.Errorf("%q cannot be the name of a namespace: %s; each namespace is a key of its own", namespace, strings.Join(faults, "; "))
		}
		if err := checkSelectors(c); err != nil {
			return nil, err
		}
	}
	if rest, ok := configs[AllNamespaces]; ok && len(configs) > 1 {
		rest.FieldSelector = excludeNamespaces(rest.FieldSelector, configs)
		configs[AllNamespaces] = rest
	}
	return configs, nil
}

func excludeNamespaces(selector fields.Selector, configs scopeConfigs) fields.Selector {
	var terms []fields.Selector
	for _, namespace := range slices.Sorted(maps.Keys(configs)) {
		if namespace != AllNamespaces {
			terms = append(terms, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
		}
	}
	if selector != nil {
		terms = append(terms, selector)
	}
	return fields.AndSelectors(terms...)
}

// checkSelectors refuses selectors that match nothing. They cannot be sent to an API server, and
// would select everything.
func checkSelectors(c Config) error {
	if s := c.LabelSelector; s != nil && !s.Empty() && s.String() == labels.Nothing().String() {
		return errors.New("labels.Nothing() cannot be sent to the API server, which would take it for everything; use a selector that no object matches")
	}
	if s := c.FieldSelector; s != nil && !s.Empty() && s.String() == fields.Nothing().String() {
		return errors.New("fields.Nothing() cannot be sent to the API server, which would take it for everything; use a selector that no object matches")
	}
	return nil
}
