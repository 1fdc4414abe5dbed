// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// The beginnings of keys that say more than that an object is there.
var (
	namespacePrefix  = storagekey.Of(namespaceResource, types.NamespacedName{})
	crdPrefix        = storagekey.Of(stores.CRDs, types.NamespacedName{})
	apiServicePrefix = storagekey.Of(apiServiceResource, types.NamespacedName{})
)

var (
	namespaceResource  = corev1.Resource("namespaces")
	apiServiceResource = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}
)

// keepsStore reports whether the CRD server goes on with the store of a definition: if at most its metadata and the rest of its
// status were changed.
func (c crdChange) keepsStore() bool {
	return c.before.UID == c.after.UID && apiequality.Semantic.DeepEqual(c.before.Spec, c.after.Spec) &&
		apiequality.Semantic.DeepEqual(c.before.Status.AcceptedNames, c.after.Status.AcceptedNames)
}

// plan is how the state becomes that of a snapshot.
type plan struct {
	locate func(key string) place
	stores func(schema.GroupResource) int // that were ever made of a custom resource
	target *Snapshot
	keep   func(schema.GroupResource, types.NamespacedName) bool // nil if nothing stays

	kept  map[string]bool      // keys of namespaces and CRDs that stay because of something of theirs
	uids  map[string]types.UID // of what goes, by key
	there map[string]bool      // keys of what is replaced
	goes  []etcd.Write         // deletions
	come  []etcd.Write         // of what is missing or different
	crds  []crdChange
}

// crdChange is a CustomResourceDefinition that is written. A missing one is empty.
type crdChange struct {
	before, after *apiextensionsv1.CustomResourceDefinition
	stores        int // of its resource that had been made before
}

// make returns the writes: what is in namespaces and of CRDs goes before these, and comes after them.
func (p *plan) make(current iter.Seq2[etcd.Entry, error]) ([]etcd.Write, error) {
	p.kept, p.there, p.uids = map[string]bool{}, map[string]bool{}, map[string]types.UID{}
	left := p.target.entries // with keys that are not smaller than the current one
	before := map[string][]byte{}
	for entry, err := range current {
		if err != nil {
			return nil, err
		}
		for len(left) > 0 && left[0].Key < entry.Key {
			p.put(left[0])
			left = left[1:]
		}
		var wanted *etcd.Entry
		if len(left) > 0 && left[0].Key == entry.Key {
			wanted, left = &left[0], left[1:]
		}
		if p.change(entry, wanted) && strings.HasPrefix(entry.Key, crdPrefix) {
			before[entry.Key] = entry.Value
		}
	}
	for _, missing := range left {
		p.put(missing)
	}
	p.goes = slices.DeleteFunc(p.goes, func(w etcd.Write) bool { return p.kept[w.Key] })
	p.come = slices.DeleteFunc(p.come, func(w etcd.Write) bool { return p.kept[w.Key] && p.there[w.Key] })
	if err := p.noteCRDs(before); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.goes, func(a, b etcd.Write) int { return rank(a.Key) - rank(b.Key) })
	slices.SortStableFunc(p.come, func(a, b etcd.Write) int { return rank(b.Key) - rank(a.Key) })
	return append(p.goes, p.come...), nil
}

// change plans what happens to an object that is there, and reports whether something does.
func (p *plan) change(current etcd.Entry, wanted *etcd.Entry) bool {
	switch {
	case isDerived(current):
		return false
	case p.keeps(current.Key):
		return false
	case wanted == nil:
		p.remove(current.Key, metadataOf(current.Value).UID)
		return true
	case string(current.Value) == string(wanted.Value):
		return false
	}
	p.there[current.Key] = true
	if uid := metadataOf(current.Value).UID; uid != metadataOf(wanted.Value).UID {
		p.remove(current.Key, uid)
	}
	p.put(*wanted)
	return true
}

func (p *plan) remove(key string, uid types.UID) {
	p.goes = append(p.goes, etcd.Write{Entry: etcd.Entry{Key: key}})
	p.uids[key] = uid
}

func (p *plan) put(wanted etcd.Entry) { p.come = append(p.come, etcd.Write{Entry: wanted}) }

// owners returns which objects go and which come.
func (p *plan) owners() (gone, come []types.UID) {
	for _, w := range p.goes {
		gone = append(gone, p.uids[w.Key])
	}
	for _, w := range p.come {
		come = append(come, metadataOf(w.Value).UID)
	}
	return gone, come
}

// keeps reports whether an object stays as it is, and notes that its namespace and its CRD do.
func (p *plan) keeps(key string) bool {
	if p.keep == nil {
		return false
	}
	at := p.locate(key)
	if !p.keep(at.resource, at.name) {
		return false
	}
	if at.name.Namespace != "" {
		p.kept[storagekey.Of(namespaceResource, types.NamespacedName{Name: at.name.Namespace})] = true
	}
	if at.custom {
		p.kept[storagekey.Of(stores.CRDs, types.NamespacedName{Name: at.resource.String()})] = true
	}
	return true
}

// noteCRDs notes what happens to CRDs.
func (p *plan) noteCRDs(before map[string][]byte) error {
	after := map[string][]byte{}
	for _, w := range slices.Concat(p.goes, p.come) { // in this order: a replaced object is in both
		if strings.HasPrefix(w.Key, crdPrefix) {
			after[w.Key] = w.Value
		}
	}
	for key, value := range after {
		c := crdChange{before: &apiextensionsv1.CustomResourceDefinition{}, after: &apiextensionsv1.CustomResourceDefinition{}}
		if err := errors.Join(decodeCRD(before[key], c.before), decodeCRD(value, c.after)); err != nil {
			return fmt.Errorf("decode what is stored as %s: %w", key, err)
		}
		if c.after.Spec.Group != "" {
			c.stores = p.stores(schema.GroupResource{Group: c.after.Spec.Group, Resource: c.after.Spec.Names.Plural})
		}
		p.crds = append(p.crds, c)
	}
	return nil
}

// decodeCRD decodes a stored definition, if there is one.
func decodeCRD(data []byte, into *apiextensionsv1.CustomResourceDefinition) error {
	if data == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}

// rank is higher for what others need.
func rank(key string) int {
	if strings.HasPrefix(key, namespacePrefix) || strings.HasPrefix(key, crdPrefix) {
		return 1
	}
	return 0
}

// isDerived reports whether the server itself writes an object, according to others: an APIService of its own.
func isDerived(entry etcd.Entry) bool {
	return strings.HasPrefix(entry.Key, apiServicePrefix) && metadataOf(entry.Value).Labels[autoregister.AutoRegisterManagedLabel] != ""
}

// protobufPrefix begins what is not stored as JSON.
const protobufPrefix = "k8s\x00"

// metadataOf reads the metadata of a stored object; they are the first field of all kinds. It is empty for what is no object.
func metadataOf(value []byte) metav1.ObjectMeta {
	var object metav1.PartialObjectMetadata
	if raw, ok := strings.CutPrefix(string(value), protobufPrefix); ok {
		var unknown runtime.Unknown
		if unknown.Unmarshal([]byte(raw)) == nil {
			_ = object.Unmarshal(unknown.Raw)
		}
	} else {
		_ = json.Unmarshal(value, &object)
	}
	return object.ObjectMeta
}
