// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Projection says which fields of an object are kept. It never changes, and is safe for concurrent use. A nil Projection
// keeps all.
type Projection struct {
	fields []string
	mark   string
	root   *node
	plans  sync.Map // reflect.Type -> func(reflect.Value)
}

// node says what is kept of a value: all of it, or what is under some names.
type node struct {
	whole bool
	under map[string]*node
}

// markPrefix begins the metadata.selfLink of a cut object.
const markPrefix = "?fields="

var (
	metadataType = reflect.TypeFor[metav1.ObjectMeta]()
	// always are the paths that are kept of each object: what names it, relates it to others and controls its life. A streaming
	// list ends with a bookmark that has the annotation.
	always = func() [][]string {
		paths := [][]string{{"apiVersion"}, {"kind"}, {"metadata", "annotations", metav1.InitialEventsAnnotationKey}}
		for i := range metadataType.NumField() {
			if name, _ := jsonName(metadataType.Field(i)); name != "annotations" && name != "managedFields" {
				paths = append(paths, []string{"metadata", name})
			}
		}
		return paths
	}()
	shape = regexp.MustCompile(`^([\w$/-]|\\\.)+(\.([\w$/-]|\\\.)+)*$`)
)

// New returns the projection to some fields. It is an error if there is none, if one is no path, or if one is in another.
func New(fields []string) (*Projection, error) {
	if len(fields) == 0 {
		return nil, errors.New("no field is named: leave Fields nil to keep all, or name metadata to keep that alone")
	}
	p := &Projection{fields: slices.Clone(fields), mark: markPrefix + strings.Join(fields, ","), root: &node{}}
	for _, field := range fields {
		if !shape.MatchString(field) {
			return nil, fmt.Errorf("%q is no path: write names with dots between, such as spec.nodeName; a path goes through lists by itself, and a dot in a key has a backslash before it", field)
		}
		if !p.root.add(split(field)) {
			return nil, fmt.Errorf("%q is there twice, or is a part of another field", field)
		}
	}
	for _, path := range always {
		p.root.keep(path)
	}
	return p, nil
}

// known are the projections that Of has returned, by their marks. There are as many as a program configures.
var known sync.Map

// Of returns the projection to fields that New has accepted, and nil if there are none.
func Of(fields []string) *Projection {
	if len(fields) == 0 {
		return nil
	}
	key := strings.Join(fields, ",")
	if p, ok := known.Load(key); ok {
		return p.(*Projection)
	}
	made, err := New(fields)
	if err != nil {
		return nil
	}
	p, _ := known.LoadOrStore(key, made)
	return p.(*Projection)
}

// MarkOf returns the projection that an object is marked with; nil if it is whole.
func MarkOf(obj metav1.Object) *Projection { return ofMark(obj.GetSelfLink()) }

func ofMark(link string) *Projection {
	fields, marked := strings.CutPrefix(link, markPrefix)
	if !marked {
		return nil
	}
	return Of(strings.Split(fields, ","))
}

// String returns the fields, with commas between. It is empty if all are kept.
func (p *Projection) String() string {
	if p == nil {
		return ""
	}
	return strings.Join(p.fields, ", ")
}

// split returns the names of a path.
func split(path string) (names []string) {
	begin := 0
	for i := 0; i <= len(path); i++ {
		if i == len(path) || path[i] == '.' && path[i-1] != '\\' {
			names = append(names, strings.ReplaceAll(path[begin:i], `\.`, "."))
			begin = i + 1
		}
	}
	return names
}

// add keeps what is at a path. It reports false if that is kept already, or a part of it is.
func (n *node) add(path []string) bool {
	switch {
	case n.whole, len(path) == 0 && n.under != nil:
		return false
	case len(path) == 0:
		n.whole = true
		return true
	}
	return n.child(path[0]).add(path[1:])
}

// keep keeps what is at a path.
func (n *node) keep(path []string) {
	if len(path) == 0 {
		n.whole = true
	}
	if !n.whole {
		n.child(path[0]).keep(path[1:])
	}
}

func (n *node) child(name string) *node {
	if n.under == nil {
		n.under = map[string]*node{}
	}
	if n.under[name] == nil {
		n.under[name] = &node{}
	}
	return n.under[name]
}

// names returns the names under a node, in order.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.under)) }

// Keeps reports whether all that is at a path is kept.
func (p *Projection) Keeps(path []string) bool {
	n := p.root
	for ; len(path) > 0 && !n.whole; path = path[1:] {
		if n = n.under[path[0]]; n == nil {
			return false
		}
	}
	return n.whole
}
