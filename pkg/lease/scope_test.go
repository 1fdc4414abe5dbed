// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// parsed returns a scope of selectors in their text form.
func parsed(g *WithT, namespace, name, label, field string) Scope {
	s := Scope{Namespace: namespace, Name: name}
	var err error
	if label != "" {
		s.Labels, err = labels.Parse(label)
		g.Expect(err).NotTo(HaveOccurred())
	}
	if field != "" {
		s.Fields, err = fields.ParseSelector(field)
		g.Expect(err).NotTo(HaveOccurred())
	}
	return s
}

func TestWhatCoversAScope(t *testing.T) {
	type scope [4]string // namespace, name, labels, fields
	for _, c := range []struct {
		wide, narrow scope
		covers, back bool // back is narrow.covers(wide)
	}{
		{scope{}, scope{}, true, true},
		{scope{}, scope{"a"}, true, false},
		{scope{"a"}, scope{"b"}, false, false},
		{scope{"a"}, scope{"a", "x"}, true, false},
		{scope{}, scope{"", "x"}, true, false},
		{scope{"", "x"}, scope{"a", "x"}, true, false},
		{scope{"a", "x"}, scope{"a", "y"}, false, false},
		{scope{"a", "x"}, scope{"a", "", "", "metadata.name=x"}, true, true},
		{scope{"a", "x"}, scope{"", "", "", "metadata.name==x,metadata.namespace==a"}, true, true},
		{scope{"a"}, scope{"a", "", "app=web"}, true, false},
		{scope{"a", "", "app=web"}, scope{"a", "", "app=web,tier=db"}, true, false},
		{scope{"a", "", "app=web"}, scope{"a", "", "app in (web)"}, false, false}, // the texts differ: a watch too many at worst
		{scope{"a", "", "app=web"}, scope{"a", "x"}, false, false},
		{scope{"", "", "", "metadata.namespace!=b"}, scope{"a"}, true, false},
		{scope{"", "", "", "metadata.namespace!=b"}, scope{"b"}, false, false},
		{scope{"", "", "", "metadata.namespace!=b"}, scope{}, false, true},
		{scope{"a", "", "", "metadata.name!=y"}, scope{"a", "x"}, true, false},
		{scope{"a", "", "", "metadata.name!=y"}, scope{"a", "y"}, false, false},
		{scope{"a"}, scope{"a", "", "", "spec.nodeName=n"}, false, false}, // only the API server knows the field
		{scope{"", "", "", "spec.nodeName=n"}, scope{"a", "", "", "spec.nodeName=n"}, true, false},
		{scope{"", "", "", "spec.nodeName=n"}, scope{"", "", "", "spec.nodeName==n"}, true, true},
		{scope{"", "", "", "spec.nodeName=n"}, scope{"", "", "", "spec.nodeName!=n"}, false, false},
	} {
		t.Run(fmt.Sprint(c.wide, c.narrow), func(t *testing.T) {
			g := NewWithT(t)
			w, err := parsed(g, c.wide[0], c.wide[1], c.wide[2], c.wide[3]).check()
			g.Expect(err).NotTo(HaveOccurred())
			n, err := parsed(g, c.narrow[0], c.narrow[1], c.narrow[2], c.narrow[3]).check()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(w.covers(n)).To(Equal(c.covers), "%s covers %s", w, n)
			g.Expect(n.covers(w)).To(Equal(c.back), "%s covers %s", n, w)
		})
	}
}

// Names of cluster roles may have what separates field selectors.
func TestAListIsRestrictedToAnyName(t *testing.T) {
	for _, name := range []string{"a,b", "a=b", `a\b`} {
		g := NewWithT(t)
		e, err := Scope{Name: name}.check()
		g.Expect(err).NotTo(HaveOccurred())
		o := &client.ListOptions{}
		e.restrict(o)
		value, exact := o.FieldSelector.RequiresExactMatch("metadata.name")
		g.Expect(exact).To(BeTrue())
		g.Expect(value).To(Equal(name))
	}
}

func TestScopesThatAreRefused(t *testing.T) {
	g := NewWithT(t)
	for text, s := range map[string]Scope{
		"labels.Nothing() selects nothing":                                          {Labels: labels.Nothing()},
		"fields.Nothing() selects nothing":                                          {Fields: fields.Nothing()},
		"it selects nothing: metadata.name=y contradicts metadata.name=x":           parsed(g, "a", "x", "", "metadata.name=y"),
		"it selects nothing: metadata.name!=x contradicts metadata.name=x":          parsed(g, "a", "x", "", "metadata.name!=x"),
		"it selects nothing: metadata.namespace=b contradicts metadata.namespace=a": parsed(g, "a", "", "", "metadata.namespace=b"),
	} {
		_, err := s.check()
		g.Expect(err).To(MatchError(ContainSubstring(text)))
	}
	for _, s := range []Scope{{Labels: labels.Everything()}, {Fields: fields.Everything()}} {
		e, err := s.check()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(e.covers(extent{})).To(BeTrue())
	}
}

// heard is what a handler was told.
type heard []string

func (h *heard) OnAdd(obj any, initial bool) {
	*h = append(*h, fmt.Sprintf("add %s %t", obj.(client.Object).GetName(), initial))
}

func (h *heard) OnUpdate(_, obj any) {
	*h = append(*h, "update "+obj.(client.Object).GetName())
}

func (h *heard) OnDelete(obj any) {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		*h = append(*h, "missed "+missed.Key)
		return
	}
	*h = append(*h, "delete "+obj.(client.Object).GetName())
}

func TestAHandlerOfAWiderInformerHearsOfItsScope(t *testing.T) {
	g := NewWithT(t)
	scope, err := parsed(g, "a", "", "app=web", "metadata.name!=never").check()
	g.Expect(err).NotTo(HaveOccurred())
	object := func(namespace, name, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}}
	}
	h := &heard{}
	r := &restricted{scope, h}
	r.OnAdd(object("a", "one", "web"), true)
	r.OnAdd(object("b", "one", "web"), true)
	r.OnAdd(object("a", "never", "web"), false)
	r.OnAdd(object("a", "two", "db"), false)
	r.OnAdd("no object", false)
	r.OnUpdate(object("a", "two", "db"), object("a", "two", "db"))
	r.OnUpdate(object("a", "two", "db"), object("a", "two", "web"))
	r.OnUpdate(object("a", "one", "web"), object("a", "one", "web"))
	r.OnUpdate(object("a", "one", "web"), object("a", "one", "db"))
	r.OnDelete(object("a", "one", "db"))
	r.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a/one", Obj: object("a", "one", "db")})
	r.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a/two", Obj: object("a", "two", "web")})
	g.Expect(*h).To(Equal(heard{"add one true", "add two false", "update one", "delete one", "missed a/two"}))
}
