// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rule says what is kept of each object of a kind. An object that one of the lists would return is kept whole. Others are cut
// down to rest, and are not kept at all if rest is nil. A Rule never changes, unless a selector does (see Changed), and is safe for
// concurrent use. A nil Rule keeps all objects whole.
type Rule struct {
	whole []client.ListOptions
	rest  *Projection
}

// Left stands in an event for an object that is not kept, or not any more. The object may exist. A Left has the metadata that identify the
// object and its version.
type Left struct{ *metav1.PartialObjectMetadata }

// Leave returns the Left of an object.
func Leave(m metav1.Object) Left {
	return Left{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
	}}}
}

// MessageFunc appends to into what is kept of an object in a protobuf message; its metadata if the object is not kept. It is not ok if
// the message is unusual, and has to be decoded.
type MessageFunc func(into, message []byte) (part []byte, kept, ok bool)

// nothing is the projection to what tells whether an object is kept.
var nothing = func() *Projection {
	p := &Projection{root: &node{}}
	for _, path := range always {
		p.root.keep(path)
	}
	return p
}()

// Identify appends to into what identifies the object in a protobuf message of any kind, with its version, and its labels and owners. It
// reports false if the message is unusual.
func Identify(into, message []byte) ([]byte, bool) { return identify()(into, message) }

var identify = sync.OnceValue(func() func(into, message []byte) ([]byte, bool) {
	return nothing.Messages(reflect.TypeFor[*metav1.PartialObjectMetadata]())
})

// RuleOf returns the rule of lists that CheckWhole has accepted, and of fields that New has; nil if there are neither.
func RuleOf(whole []client.ListOptions, fields []string) *Rule {
	if len(whole) == 0 && len(fields) == 0 {
		return nil
	}
	return &Rule{whole: whole, rest: Of(fields)}
}

// CheckWhole returns an error if a list cannot be evaluated by the metadata of an object, or selects nothing.
func CheckWhole(whole []client.ListOptions) error {
	if whole != nil && len(whole) == 0 {
		return errors.New("it has no entry: leave it nil, or name what is kept whole")
	}
	changing := 0
	for n, list := range whole {
		if err := checkList(list); err != nil {
			return fmt.Errorf("entry %d: %w", n, err)
		}
		if _, changes := list.FieldSelector.(changer); changes {
			changing++
		}
	}
	if changing > 1 {
		return errors.New("one field selector at most may change, such as that of a ring")
	}
	return nil
}

// changer is a selector that changes: the channel is closed when it selects something else from then on.
type changer interface{ Changed() <-chan struct{} }

func checkList(list client.ListOptions) error {
	if list.Limit != 0 || list.Continue != "" || list.Raw != nil || list.UnsafeDisableDeepCopy != nil {
		return errors.New("only Namespace, LabelSelector and FieldSelector say what is kept: leave the others empty")
	}
	if s := list.LabelSelector; s != nil {
		if _, selectable := s.Requirements(); !selectable {
			return errors.New("labels.Nothing() selects nothing")
		}
	}
	s := list.FieldSelector
	if _, changes := s.(changer); changes || s == nil || s.Empty() {
		return nil
	}
	if len(s.Requirements()) == 0 {
		return errors.New("fields.Nothing() selects nothing")
	}
	for _, r := range s.Requirements() {
		if r.Field != metav1.ObjectNameField && r.Field != namespaceField {
			return fmt.Errorf("the field %s is known to the API server alone: select by %s, %s or labels, or for the whole kind with ByObject.Field",
				r.Field, metav1.ObjectNameField, namespaceField)
		}
	}
	return nil
}

const namespaceField = "metadata.namespace"

// CheckScope returns an error if a kind of that scope has no objects in the namespace of a list.
func (r *Rule) CheckScope(scope meta.RESTScopeName) error {
	if r == nil || scope != meta.RESTScopeNameRoot {
		return nil
	}
	for n, list := range r.whole {
		if list.Namespace != "" {
			return fmt.Errorf("entry %d: the kind is cluster-scoped, and the Namespace is %q: leave it empty", n, list.Namespace)
		}
	}
	return nil
}

// isWhole reports whether an object with that metadata is kept whole.
func (r *Rule) isWhole(m metav1.Object) bool {
	return slices.ContainsFunc(r.whole, func(list client.ListOptions) bool {
		return (list.LabelSelector == nil || list.LabelSelector.Matches(labels.Set(m.GetLabels()))) && mayReturn(list, metadata{m})
	})
}

// mayReturn reports whether a list may return an object with those fields. It does not look at LabelSelector.
func mayReturn(list client.ListOptions, of fields.Fields) bool {
	return (list.Namespace == "" || list.Namespace == of.Get(namespaceField)) && (list.FieldSelector == nil || list.FieldSelector.Matches(of))
}

// metadata are the fields of an object that a selector may ask for: its name and its namespace. A selector that changes may take the object.
type metadata struct{ metav1.Object }

// Has implements fields.Fields.
func (m metadata) Has(field string) bool { return m.Get(field) != "" }

// Get implements fields.Fields.
func (m metadata) Get(field string) string {
	switch field {
	case metav1.ObjectNameField:
		return m.GetName()
	case namespaceField:
		return m.GetNamespace()
	}
	return ""
}

// Drops reports whether there may be objects that are not kept.
func (r *Rule) Drops() bool { return r != nil && r.rest == nil }

// Keeps reports whether an object with that metadata is kept, whole or in part.
func (r *Rule) Keeps(m metav1.Object) bool { return !r.Drops() || r.isWhole(m) }

// Excludes reports whether no object with that key is kept, whatever is in it.
func (r *Rule) Excludes(key client.ObjectKey) bool {
	if !r.Drops() {
		return false
	}
	of := fields.Set{metav1.ObjectNameField: key.Name, namespaceField: key.Namespace}
	return !slices.ContainsFunc(r.whole, func(list client.ListOptions) bool { return mayReturn(list, of) })
}

// Apply takes from an object, which belongs to the caller, what is not kept of it. It reports false if the object is not kept. What has no
// metadata stays as it is.
func (r *Rule) Apply(obj runtime.Object) (kept bool) {
	m, err := meta.Accessor(obj)
	switch {
	case r == nil || err != nil || r.isWhole(m):
		return true
	case r.rest == nil:
		return false
	}
	r.rest.Cut(obj)
	return true
}

// Messages returns the function for the messages of t, which are those of Projection.Messages.
func (r *Rule) Messages(t reflect.Type) MessageFunc {
	var cut func(into, message []byte) ([]byte, bool)
	if r.rest != nil {
		cut = r.rest.Messages(t)
	}
	return func(into, message []byte) (_ []byte, kept, ok bool) {
		if r.whole == nil {
			into, ok = cut(into, message)
			return into, true, ok
		}
		begin := len(into)
		into, ok = Identify(into, message)
		m := metav1.PartialObjectMetadata{} // whose message has the metadata where each kind has them
		switch {
		case !ok || m.Unmarshal(into[begin:]) != nil:
			return into, true, false
		case r.isWhole(&m):
			return append(into[:begin], message...), true, true
		case r.rest == nil:
			return into, false, true
		}
		into, ok = cut(into[:begin], message)
		return into, true, ok
	}
}

// Changed returns a function whose channel is closed when the rule keeps something else from then on; nil if it never does.
func (r *Rule) Changed() func() <-chan struct{} {
	if r == nil {
		return nil
	}
	for _, list := range r.whole {
		if s, ok := list.FieldSelector.(changer); ok {
			return s.Changed
		}
	}
	return nil
}

// Kept returns the text that says what is kept of objects that are not whole. It is empty if there are none.
func (r *Rule) Kept() string {
	switch {
	case r == nil || r.rest == nil:
		return ""
	case r.whole == nil:
		return r.rest.String()
	}
	return r.rest.String() + ", and all of what matches " + r.selectors()
}

// Describe returns the text that names in messages which objects are kept. It is empty if all are.
func (r *Rule) Describe() string {
	if !r.Drops() {
		return ""
	}
	return "the selectors " + r.selectors()
}

// selectors returns the text of the lists.
func (r *Rule) selectors() string {
	entries := make([]string, 0, len(r.whole))
	for _, list := range r.whole {
		var parts []string
		if list.Namespace != "" {
			parts = append(parts, namespaceField+"="+list.Namespace)
		}
		for _, s := range []fmt.Stringer{list.FieldSelector, list.LabelSelector} {
			if s != nil && s.String() != "" {
				parts = append(parts, s.String())
			}
		}
		entries = append(entries, cmp.Or(strings.Join(parts, ","), "all"))
	}
	return strings.Join(entries, " or ")
}

// Requirements returns what the labels of each object that is kept fulfil, so that the API server needs not send the others. It is empty
// if objects without labels are kept.
func (r *Rule) Requirements() (all labels.Requirements) {
	if !r.Drops() {
		return nil
	}
	byEntry := make([]labels.Requirements, 0, len(r.whole))
	for _, list := range r.whole {
		if list.LabelSelector == nil {
			return nil
		}
		requirements, _ := list.LabelSelector.Requirements()
		byEntry = append(byEntry, requirements)
	}
	seen := sets.New[string]()
	for _, first := range byEntry[0] {
		if common, ok := commonOf(first, byEntry[1:]); ok && !seen.Has(common.String()) {
			seen.Insert(common.String())
			all = append(all, common)
		}
	}
	return all
}

// commonOf returns a requirement that first implies, and each of the others too.
func commonOf(first labels.Requirement, others []labels.Requirements) (labels.Requirement, bool) {
	same, values := true, sets.New(first.ValuesUnsorted()...)
	for _, requirements := range others {
		same = same && slices.ContainsFunc(requirements, first.Equal)
		at := slices.IndexFunc(requirements, func(r labels.Requirement) bool { return r.Key() == first.Key() && isPositive(r) })
		if values != nil && at >= 0 && isPositive(first) {
			values.Insert(requirements[at].ValuesUnsorted()...)
		} else {
			values = nil
		}
	}
	switch {
	case same:
		return first, true
	case values == nil:
		return first, false
	}
	common, err := labels.NewRequirement(first.Key(), selection.In, sets.List(values))
	if err != nil {
		return first, false
	}
	return *common, true
}

// isPositive reports whether a requirement names the values that a label may have.
func isPositive(r labels.Requirement) bool {
	return r.Operator() == selection.In || r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals
}
