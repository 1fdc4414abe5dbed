// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// TestHandlersThatGoToDifferentDecodedObjectsDoNotShareThem: two handlers come from the same flat
// object, and each goes to another state of it. The later states are decoded: they have no identity
// by which one could be told from the other.
func TestHandlersThatGoToDifferentDecodedObjectsDoNotShareThem(t *testing.T) {
	g := NewWithT(t)
	flatForm := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.ConfigMap]()})
	decodedForm := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.ConfigMap](), Decoded: true})
	s := newSharedReplay(flatForm)
	first, second := s.join(), s.join()
	one := flatForm.Keep(configMap("ns/a", "1"))
	two, three := configMap("ns/a", "2"), configMap("ns/a", "3")
	to := func(w *replayer, kind watchcache.EventType, before, after object.Object) (past, current any) {
		e := &event{Type: kind, Previous: item(before), Item: item(after)}
		d := s.deliver(w, e, nil)
		current, err := d.after(e)
		g.Expect(err).NotTo(HaveOccurred())
		past, err = d.before(e)
		g.Expect(err).NotTo(HaveOccurred())
		return past, current
	}
	_, current := to(first, watchcache.Updated, one, decodedForm.Keep(two))
	g.Expect(current).To(BeIdenticalTo(two))
	_, current = to(second, watchcache.Updated, one, decodedForm.Keep(three))
	g.Expect(current).To(BeIdenticalTo(three))

	back := flatForm.Keep(configMap("ns/a", "4"))
	past, _ := to(first, watchcache.Updated, decodedForm.Keep(two), back)
	g.Expect(past).To(BeIdenticalTo(two))
	past, _ = to(second, watchcache.Updated, decodedForm.Keep(three), back)
	g.Expect(past).To(BeIdenticalTo(three))
}

// TestHandlersThatAreToldOfManyDeletionsHoldFewOfTheObjects: what is made to tell of deletions counts
// like what is made to tell of additions.
func TestHandlersThatAreToldOfManyDeletionsHoldFewOfTheObjects(t *testing.T) {
	const objects, size = 200, 100 << 10
	g := NewWithT(t)
	form := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.ConfigMap]()})
	s := newSharedReplay(form)
	replayers := []*replayer{s.join(), s.join()}
	before := heap()
	for i := range objects {
		text := strings.Repeat(fmt.Sprintf("%04d", i), size/4)
		e := &event{Type: watchcache.Deleted, Previous: item(form.Keep(configMap(fmt.Sprintf("ns/%03d", i), text)))}
		var told []any
		for _, w := range replayers {
			gone, err := s.deliver(w, e, nil).before(e)
			g.Expect(err).NotTo(HaveOccurred())
			told = append(told, gone)
		}
		g.Expect(told[0]).To(BeIdenticalTo(told[1]))
	}
	g.Expect(s.bytes).To(And(BeNumerically(">", 0), BeNumerically("<=", replayBytes)))
	g.Expect(heap()-before).To(BeNumerically("<", 3*replayBytes), "of %d bytes", objects*size)
}
