// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// state is what is in a server: of each object, by its name, the value at each path. Two runs that have led to the same have the
// same state.
type state map[string]fields

type fields map[string]string

// stateReader reads the state of one server.
type stateReader struct {
	normalize func(*unstructured.Unstructured) bool
	discovery discovery.DiscoveryInterface
	objects   dynamic.Interface
}

func newStateReader(p *Plan, config *rest.Config) (*stateReader, error) {
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &stateReader{p.Normalize, found, objects}, nil
}

// ignored are kinds that say when something happened, or that the server writes by itself.
var ignored = map[schema.GroupResource]bool{
	{Resource: "events"}:                                       true,
	{Group: "events.k8s.io", Resource: "events"}:               true,
	{Group: "coordination.k8s.io", Resource: "leases"}:         true,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}: true,
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:      true,
}

// all returns all objects of the server.
func (r *stateReader) all(ctx context.Context) (all []unstructured.Unstructured, err error) {
	lists, err := discovery.ServerPreferredResources(r.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // of an aggregated server that is not there
		return nil, fmt.Errorf("find the kinds of the server: %w", err)
	}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			if ignored[schema.GroupResource{Group: gv.Group, Resource: kind.Name}] {
				continue
			}
			found, err := r.objects.Resource(gv.WithResource(kind.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // its CRD has just gone
			}
			if err != nil {
				return nil, fmt.Errorf("list %s at the end of a step: %w", gv.WithResource(kind.Name), err)
			}
			all = append(all, found.Items...)
		}
	}
	return all, nil
}

// state reads what is there now.
func (r *stateReader) state(ctx context.Context) (state, error) {
	all, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	var drawn []string // what the server has drawn, and what stands for it
	for i := range all {
		o := &all[i]
		if uid := o.GetUID(); uid != "" {
			drawn = append(drawn, string(uid), "a UID")
		}
		if isGenerated(o) {
			drawn = append(drawn, o.GetName(), o.GetGenerateName()+"*")
		}
	}
	reader := &reader{strings.NewReplacer(drawn...)}
	found := map[string][]fields{}
	for i := range all {
		o := &all[i]
		key := strings.TrimSpace(fmt.Sprintf("%s %s %s", o.GetAPIVersion(), o.GetKind(), nameOf(o)))
		if hasAddress(o) {
			found[key] = append(found[key], fields{})
			continue
		}
		normalize(o)
		if r.normalize == nil || r.normalize(o) {
			found[key] = append(found[key], reader.fields(o))
		}
	}
	return numbered(found), nil
}

// hasAddress says whether an object has the port of the server or its certificates. Only its presence counts.
func hasAddress(o *unstructured.Unstructured) bool {
	switch name := o.GetName(); o.GetKind() {
	case "Service", "Endpoints", "EndpointSlice":
		return name == "kubernetes" && o.GetNamespace() == metav1.NamespaceDefault
	case "ConfigMap":
		return name == "extension-apiserver-authentication" && o.GetNamespace() == metav1.NamespaceSystem || name == "kube-root-ca.crt"
	}
	return false
}

func isGenerated(o *unstructured.Unstructured) bool {
	return o.GetGenerateName() != "" && strings.HasPrefix(o.GetName(), o.GetGenerateName())
}

// nameOf is the name in its namespace, without what the server has made up.
func nameOf(o *unstructured.Unstructured) string {
	name := o.GetName()
	if isGenerated(o) {
		name = o.GetGenerateName() + "*"
	}
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}.String()
}

// numbered gives names of their own to objects with generated names, in the order of what is in them.
func numbered(found map[string][]fields) state {
	s := state{}
	for key, objects := range found {
		slices.SortFunc(objects, func(a, b fields) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for i, f := range objects {
			if i == 0 {
				s[key] = f
			} else {
				s[fmt.Sprintf("%s (%d)", key, i+1)] = f
			}
		}
	}
	return s
}

// normalize removes what is otherwise each time.
func normalize(o *unstructured.Unstructured) {
	for _, field := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = ""
	}
	if len(owners) > 0 {
		o.SetOwnerReferences(owners)
	}
	switch o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Service"}: // the server draws them
		if ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP"); ip != "None" {
			unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
		}
	case schema.GroupKind{Kind: "Secret"}:
		conceal(o)
	}
}

// concealing is the key with which secrets are compared, so that nobody can guess them from a report.
var concealing = []byte(rand.Text())

// conceal replaces the values of a Secret.
func conceal(o *unstructured.Unstructured) {
	data, _, _ := unstructured.NestedMap(o.Object, "data")
	for key, value := range data {
		sum := hmac.New(sha256.New, concealing)
		fmt.Fprint(sum, value)
		data[key] = "secret " + hex.EncodeToString(sum.Sum(nil)[:4])
	}
	if data != nil {
		_ = unstructured.SetNestedMap(o.Object, data, "data") // it was a map
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
}

// reader takes objects apart.
type reader struct{ drawn *strings.Replacer }

func (r *reader) fields(o *unstructured.Unstructured) fields {
	f := fields{}
	for key, value := range o.Object {
		r.add(f, key, value)
	}
	return f
}

// unread are fields that count writes, and numbers that the server draws.
var unread = map[string]bool{"observedGeneration": true, "nodePort": true, "healthCheckNodePort": true}

func (r *reader) add(f fields, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, value := range v {
			if !unread[key] {
				r.add(f, path+"."+key, value)
			}
		}
	case []any:
		for i, value := range v {
			r.add(f, fmt.Sprintf("%s[%d]", path, i), value)
		}
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			v = "a time"
		}
		f[path] = fmt.Sprintf("%q", r.drawn.Replace(v))
	default:
		f[path] = fmt.Sprint(v)
	}
}

// longest bounds the value of a field in a report.
const longest = 200

// differences says what is otherwise in other, in order.
func (s state) differences(other state) (all []string) {
	for _, key := range sortedKeys(s, other) {
		was, before := s[key]
		is, now := other[key]
		switch {
		case !now:
			all = append(all, key+" is missing")
		case !before:
			all = append(all, key+" is there, and is not without the fault")
		default:
			for _, path := range sortedKeys(was, is) {
				if was[path] != is[path] {
					all = append(all, fmt.Sprintf("%s: %s is %s, and not %s", key, path, shown(is, path), shown(was, path)))
				}
			}
		}
	}
	return all
}

func shown(f fields, path string) string {
	value, ok := f[path]
	switch {
	case !ok:
		return "not set"
	case len(value) > longest:
		return value[:longest] + "..."
	}
	return value
}

// sortedKeys returns the keys of two maps.
func sortedKeys[V any, M ~map[string]V](a, b M) []string {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	return slices.Sorted(maps.Keys(keys))
}
