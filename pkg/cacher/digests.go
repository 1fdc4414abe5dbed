// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// digests are hashes of objects by their namespaces and names. They are added up, so that an object
// counts as often as it is there.
type digests map[string]uint64

// add takes an object in, with what it contains if there is a codec for it, which may change
// the object's kind and version.
func (d digests) add(obj runtime.Object, codec runtime.Encoder) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	h := fnv.New64a()
	for _, part := range []string{string(m.GetUID()), m.GetResourceVersion()} {
		_, _ = io.WriteString(h, part) // a hash has no errors
		_, _ = h.Write([]byte{0})
	}
	name := strings.TrimPrefix(m.GetNamespace()+"/"+m.GetName(), "/")
	if codec != nil {
		if err := codec.Encode(obj, h); err != nil {
			return fmt.Errorf("cannot encode %s at resource version %s: %w", name, m.GetResourceVersion(), err)
		}
	}
	d[name] += h.Sum64()
	return nil
}

// differences says in which objects the cache, d, differs from the storage.
func (d digests) differences(storage digests) (found []string) {
	for name, here := range d {
		if there, ok := storage[name]; !ok {
			found = append(found, name+" is not in the storage")
		} else if here != there {
			found = append(found, name+" is not the same")
		}
	}
	for name := range storage {
		if _, ok := d[name]; !ok {
			found = append(found, name+" is not in the cache")
		}
	}
	slices.Sort(found)
	return found
}

// some joins the first few.
func some(of []string) string {
	const few = 5
	if len(of) > few {
		of = append(of[:few:few], fmt.Sprintf("and %d others", len(of)-few))
	}
	return strings.Join(of, ", ")
}
