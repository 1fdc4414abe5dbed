// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/variable"
)

func node(name, label string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"k": label}}}
}

func TestOnlyWhatASecondObjectBringsEnters(t *testing.T) {
	d := dictionary.New(dictionary.Limits{})
	c := codecFor(t, reflect.TypeFor[corev1.Node]())
	for i := range 3 {
		n := node("first", "recurring-value")
		n.ResourceVersion = fmt.Sprint(i)
		mustEncode(t, c, n, d)
	}
	if s := d.Stats(); s.Entries != 0 {
		t.Fatalf("one object alone filled the dictionary: %+v", s)
	}
	// The name of an object may take the place of the value among the few that the doorkeeper remembers
	// for so few objects. The value then enters with a later object.
	for i := range 20 {
		mustEncode(t, c, node(fmt.Sprint("another-", i), "recurring-value"), d)
	}
	small, large := mustEncode(t, c, node("other", "recurring-value"), d), mustEncode(t, c, node("other", "recurring-value"), nil)
	if s := d.Stats(); s.Entries == 0 || s.Bytes < len("recurring-value") || small.Size() >= large.Size() {
		t.Fatalf("what recurs did not enter: %+v, %d and %d bytes", s, small.Size(), large.Size())
	}
	if v, _ := small.Label("k"); v != "recurring-value" {
		t.Fatalf("label is %q", v)
	}
}

func TestValuesWithTimesStayOutside(t *testing.T) {
	c := codecFor(t, reflect.TypeFor[corev1.Node]())
	for at, entries := range map[metav1.Time]bool{{}: true, metav1.Unix(1_790_000_000, 0): false} {
		d := dictionary.New(dictionary.Limits{})
		for i := range 5 {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
			n.Status.Conditions = []corev1.NodeCondition{{Type: "A", Status: "B", Reason: "C", LastHeartbeatTime: at}}
			if err := c.Verify(n, mustEncode(t, c, n, d)); err != nil {
				t.Fatal(err)
			}
		}
		if s := d.Stats(); (s.Entries > 0) != entries {
			t.Errorf("with the time %v: %+v", at, s)
		}
	}
}

func TestDictionaryKeepsItsLimits(t *testing.T) {
	limits := dictionary.Limits{Entries: 50, Bytes: 1000}
	d := dictionary.New(limits)
	c := codecFor(t, reflect.TypeFor[corev1.Node]())
	for i := range 2000 {
		n := node(fmt.Sprint("n", i), fmt.Sprintf("value-%d", i/2))
		if err := c.Verify(n, mustEncode(t, c, n, d)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		n := node("long", strings.Repeat("x", 1<<20))
		if err := c.Verify(n, mustEncode(t, c, n, d)); err != nil {
			t.Fatal(err)
		}
		n.Name = "longer"
		mustEncode(t, c, n, d)
	}
	if s := d.Stats(); s.Entries > limits.Entries || s.Bytes > limits.Bytes || s.Entries < limits.Entries/2 {
		t.Fatalf("limits %+v, held %+v", limits, s)
	}
}

func TestDictionaryWearsOut(t *testing.T) {
	d := dictionary.New(dictionary.Limits{})
	c := codecFor(t, reflect.TypeFor[corev1.Node]())
	var live []flat.Object
	// Each pair of objects brings a value of its own, so that entries follow objects.
	for i := range 4 * flat.WearEntries {
		live = append(live, mustEncode(t, c, node(fmt.Sprint("n", i), fmt.Sprint("value-", i/2)), d))
	}
	if d.Stale(len(live)) {
		t.Fatal("stale although nothing has left")
	}
	if !d.Stale(len(live) / 8) {
		t.Fatalf("not stale although most objects have left: %+v", d.Stats())
	}
	next := d.Successor()
	before := d.Stats().Entries
	for i := 0; i < len(live); i += 8 {
		moved, err := c.Reencode(live[i], next)
		if err != nil || moved.Dictionary() != next || moved.Name() != live[i].Name() {
			t.Fatal(moved.Name(), err)
		}
		if v, _ := moved.Label("k"); v != fmt.Sprint("value-", i/2) {
			t.Fatalf("label is %q", v)
		}
		if next.Stale(len(live) / 8) {
			t.Fatalf("stale before all have moved: %d", i)
		}
	}
	if next.Stale(len(live)/8) || next.Stats().Entries > before/2 {
		t.Fatalf("after moving: %+v, before it: %+v", next.Stats(), d.Stats())
	}
	if live[0].Name() != "n0" {
		t.Fatal("an object of the old dictionary can no longer be read")
	}
}

// TestWhatIsNeverKeptDoesNotCount: lists that fail leave Objects behind that nobody keeps.
func TestWhatIsNeverKeptDoesNotCount(t *testing.T) {
	variable.SkipUnderDetector(t, "it takes more of the heap")
	d := dictionary.New(dictionary.Limits{})
	c := codecFor(t, reflect.TypeFor[corev1.Node]())
	const objects = 3 * flat.WearEntries // two share a value, and some values may share a hash: enough entries are left
	for range 10 {
		for i := range objects {
			mustEncode(t, c, node(fmt.Sprint("n", i), fmt.Sprint("value-", i/2)), d)
		}
	}
	if d.Stale(objects) {
		t.Fatal("stale although all entries are in use")
	}
	if !d.Stale(objects / 4) {
		t.Fatal("not stale although most objects have left")
	}
}

// TestFillingIsNoWear: the first objects of a store have little in common with each other, and
// the others much with them.
func TestFillingIsNoWear(t *testing.T) {
	variable.SkipUnderDetector(t, "it takes more of the heap")
	d := dictionary.New(dictionary.Limits{})
	c := codecFor(t, reflect.TypeFor[corev1.Node]())
	const groups = 1200
	var live [10 * groups]flat.Object
	for round := range 3 { // a list, and two updates of each
		for i := range live {
			n := node(fmt.Sprint("n", i), fmt.Sprint("group-", i%groups))
			for k := range 4 {
				n.Labels[fmt.Sprint("key-", k)] = fmt.Sprint("value-", k, "-", i%groups)
			}
			live[i] = mustEncode(t, c, n, d)
			if there := min(round*len(live)+i+1, len(live)); i%1000 == 0 && d.Stale(there) {
				t.Fatalf("stale in round %d: %+v", round, d.Stats())
			}
		}
	}
	if s := d.Stats(); s.Entries < flat.WearEntries {
		t.Fatalf("too few entries for the test to tell anything: %+v", s)
	}
}

func TestDictionaryWearsOutByReplacement(t *testing.T) {
	d := dictionary.New(dictionary.Limits{})
	c := codecFor(t, reflect.TypeFor[corev1.Node]())
	const objects = flat.WearEntries
	live := make([]flat.Object, objects)
	for i := 0; i%1000 != 0 || !d.Stale(min(i, objects)); i++ {
		if i > 20*objects {
			t.Fatalf("never stale: %+v", d.Stats())
		}
		live[i%objects] = mustEncode(t, c, node(fmt.Sprint("n", i), fmt.Sprint("value-", i/2)), d)
	}
	if s := d.Stats(); s.Entries < objects {
		t.Fatalf("stale too early: %+v", s)
	}
}

func TestConcurrentUse(t *testing.T) {
	d, c := dictionary.New(dictionary.Limits{Entries: 3000}), podCodec(t)
	objects := make(chan flat.Object, 64)
	var writers, readers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			cl := newCluster(uint64(w % 2)) // two writers each bring the same
			for i := range 150 {
				p := cl.pod(i)
				o, err := c.Encode(p, d)
				if err == nil {
					err = c.Verify(p, o)
				}
				if err != nil {
					t.Error(err)
					return
				}
				objects <- o
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for o := range objects {
				var p corev1.Pod
				var m metav1.ObjectMeta
				if err := c.Decode(o, &p); err != nil || p.Name != o.Name() {
					t.Error(err, p.Name)
				}
				if err := o.DecodeMetadata(&m); err != nil || m.Name != p.Name {
					t.Error(err, m.Name)
				}
				d.Stale(100)
				d.Stats()
			}
		})
	}
	writers.Wait()
	close(objects)
	readers.Wait()
	if s := d.Stats(); s.Entries == 0 || s.Entries > 3000 {
		t.Fatalf("%+v", s)
	}
}

// TestAnObjectThatIsUpdatedTakesNoMoreOfADictionary: a store of one object that is updated all the
// time, such as a Lease, remembers nothing for objects that it does not have.
func TestAnObjectThatIsUpdatedTakesNoMoreOfADictionary(t *testing.T) {
	variable.SkipUnderDetector(t, "it takes more of the heap")
	c, d := codecFor(t, reflect.TypeFor[corev1.ConfigMap]()), dictionary.New(dictionary.Limits{})
	update := func(version int) {
		mustEncode(t, c, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", ResourceVersion: fmt.Sprint(version)},
			Data:       map[string]string{"value": fmt.Sprint("version ", version)},
		}, d)
	}
	update(0)
	first := d.Stats().Heap
	for version := range 100_000 {
		update(version)
	}
	if grown := d.Stats().Heap - first; first > 256 || grown > 256 {
		t.Errorf("the dictionary takes %d bytes for an object, and %d more for its updates", first, grown)
	}
}
