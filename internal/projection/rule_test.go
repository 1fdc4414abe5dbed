// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// list returns a list by labels.
func list(t *testing.T, selector string) client.ListOptions {
	t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return client.ListOptions{LabelSelector: parsed}
}

// randomLists returns lists of the labels, the namespaces and the names that randomObject chooses from.
func randomLists(t *testing.T, r *rand.Rand) (lists []client.ListOptions) {
	terms := []string{"a=1", "a=2", "a in (1,2)", "a", "!a", "a!=1", "b=1", "b in (1,3)", "b notin (2)", "b==2", "a=1,b=1", "a in (2,3),b=2", "a=1,a in (1,3)", ""}
	for range 1 + r.IntN(3) {
		l := list(t, terms[r.IntN(len(terms))])
		switch r.IntN(6) {
		case 0:
			l.Namespace = "x"
		case 1:
			l.FieldSelector = fields.OneTermNotEqualSelector("metadata.name", "n")
		case 2:
			l.FieldSelector = fields.OneTermEqualSelector("metadata.namespace", "y")
		case 3:
			l.LabelSelector = nil
		}
		lists = append(lists, l)
	}
	return lists
}

func randomObject(r *rand.Rand) *corev1.Secret {
	of := []string{"", "1", "2", "3"}
	obj := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: []string{"x", "y"}[r.IntN(2)], Name: []string{"n", "m"}[r.IntN(2)], UID: "u", ResourceVersion: "7", Labels: map[string]string{},
			Annotations: map[string]string{"an": "annotation"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Data: map[string][]byte{"key": []byte("value")},
	}
	for _, label := range []string{"a", "b"} {
		if value := of[r.IntN(len(of))]; value != "" {
			obj.Labels[label] = value
		}
	}
	if len(obj.Labels) == 0 {
		obj.Labels = nil
	}
	return obj
}

// TestRandomRules: a message is cut as the object is, and the API server may leave out only what is not kept.
func TestRandomRules(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	kept, dropped, sent := 0, 0, 0
	for range 3000 {
		g := NewWithT(t)
		lists := randomLists(t, r)
		g.Expect(CheckWhole(lists)).To(Succeed())
		fieldsOfRest := [][]string{nil, {"metadata"}, {"type"}}[r.IntN(3)]
		rule := RuleOf(lists, fieldsOfRest)
		messages, needed := rule.Messages(reflect.TypeFor[*corev1.Secret]()), rule.Requirements()
		for range 10 {
			obj := randomObject(r)
			message, err := obj.Marshal()
			g.Expect(err).NotTo(HaveOccurred())
			text := fmt.Sprintf("%s, rest %v, %v", rule.Describe(), fieldsOfRest, obj)
			part, partKept, ok := messages([]byte("before"), message)
			g.Expect(ok).To(BeTrue())
			g.Expect(string(part[:6])).To(Equal("before"))
			read := &corev1.Secret{}
			g.Expect(read.Unmarshal(part[6:])).To(Succeed())
			identified := obj.ObjectMeta

			is := rule.Apply(obj)
			g.Expect(partKept).To(Equal(is), text)
			if matches := labels.NewSelector().Add(needed...).Matches(labels.Set(identified.Labels)); !matches {
				g.Expect(is).To(BeFalse(), "%v loses %s", needed, text)
			} else {
				sent++
			}
			if is {
				kept++
				g.Expect(read).To(Equal(obj), text)
				continue
			}
			dropped++
			g.Expect(read.Data).To(BeEmpty())
			g.Expect(rule.isWhole(read)).To(BeFalse(), text)
			left := Leave(read)
			g.Expect([]string{left.Namespace, left.Name, string(left.UID), left.ResourceVersion}).To(Equal(
				[]string{identified.Namespace, identified.Name, string(identified.UID), identified.ResourceVersion}))
		}
	}
	t.Logf("%d kept, %d dropped, %d that a server sends", kept, dropped, sent)
	NewWithT(t).Expect(min(kept, dropped, 30000-sent)).To(BeNumerically(">", 300), "all cases are there")
}

func TestRequirements(t *testing.T) {
	for _, test := range []struct {
		lists  []string
		wanted string
	}{
		{[]string{"a=1"}, "a=1"},
		{[]string{"a=1", "a=2"}, "a in (1,2)"},
		{[]string{"a=1", "a in (2,3),b"}, "a in (1,2,3)"},
		{[]string{"a=1,b", "b,a=1"}, "a=1,b"},
		{[]string{"!a", "!a,c=1"}, "!a"},
		{[]string{"a=1", "a!=2"}, ""},
		{[]string{"a=1", "b=1"}, ""},
		{[]string{"a=1", ""}, ""},
	} {
		var lists []client.ListOptions
		for _, selector := range test.lists {
			lists = append(lists, list(t, selector))
		}
		NewWithT(t).Expect(labels.NewSelector().Add(RuleOf(lists, nil).Requirements()...).String()).To(Equal(test.wanted), "%v", test.lists)
	}
	NewWithT(t).Expect(RuleOf([]client.ListOptions{list(t, "a=1")}, []string{"metadata"}).Requirements()).To(BeEmpty(), "there is a rest")
}

// byLabel is a selector that changes.
type byLabel struct {
	fields.Selector
	label, value string
}

func (byLabel) Changed() <-chan struct{} { return nil }
func (s byLabel) Matches(of fields.Fields) bool {
	obj, known := of.(metav1.Object)
	return !known || obj.GetLabels()[s.label] == s.value
}

// TestASelectorThatChanges gets the object. By a name alone it may not know.
func TestASelectorThatChanges(t *testing.T) {
	g := NewWithT(t)
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "n", Labels: map[string]string{"a": "1"}}}
	for value, want := range map[string]bool{"1": true, "2": false} {
		whole := []client.ListOptions{{FieldSelector: byLabel{label: "a", value: value}}}
		g.Expect(CheckWhole(whole)).To(Succeed())
		g.Expect(RuleOf(whole, nil).Keeps(obj)).To(Equal(want))
		g.Expect(RuleOf(whole, nil).Excludes(client.ObjectKeyFromObject(obj))).To(BeFalse())
	}
}
