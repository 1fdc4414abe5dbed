// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "reflect"

// The numbers of the first fields of the metadata, which are read without decoding the object.
const (
	MetaNamespace = iota
	MetaName
	MetaResourceVersion
	MetaUID
	MetaLabels
	MetaAnnotations
)

// firstMetadata are the names of these fields. All other fields of ObjectMeta follow them.
var firstMetadata = []string{
	MetaNamespace: "Namespace", MetaName: "Name", MetaResourceVersion: "ResourceVersion", MetaUID: "UID", MetaLabels: "Labels", MetaAnnotations: "Annotations",
}

// embeddedMetadata returns the offset of the ObjectMeta whose methods are promoted to the struct
// type t: the one that is embedded at the least depth. It reports false if t has none, or if that
// one is behind a pointer. The search is by type, because an alias gives an embedded field another
// name.
func embeddedMetadata(t reflect.Type) (offset uintptr, ok bool) {
	seen := map[reflect.Type]bool{}
	for level := []embedded{{typ: t, direct: true}}; len(level) > 0; {
		var next, found []embedded
		for _, outer := range level {
			for _, inner := range outer.embeds() {
				if inner.typ == typeObjectMeta {
					found = append(found, inner)
				} else if !seen[inner.typ] {
					next = append(next, inner)
				}
			}
		}
		if len(found) > 0 { // of two, neither is promoted
			return found[0].offset, len(found) == 1 && found[0].direct
		}
		for _, inner := range next {
			seen[inner.typ] = true // a type may embed pointers to itself
		}
		level = next
	}
	return 0, false
}

// embedded is a struct that another one embeds.
type embedded struct {
	typ    reflect.Type
	offset uintptr
	direct bool // no pointer leads there
}

// embeds lists the structs that e embeds.
func (e embedded) embeds() (inner []embedded) {
	for i := range e.typ.NumField() {
		f := e.typ.Field(i)
		at := embedded{typ: f.Type, offset: e.offset + f.Offset, direct: e.direct}
		if f.Type.Kind() == reflect.Pointer {
			at.typ, at.direct = f.Type.Elem(), false
		}
		if f.Anonymous && at.typ.Kind() == reflect.Struct {
			inner = append(inner, at)
		}
	}
	return inner
}
