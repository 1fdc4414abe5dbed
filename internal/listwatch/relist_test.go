// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/signal"
)

// changing is a selector of some names, which changes.
type changing struct {
	fields.Selector
	mu      sync.Mutex // guards names
	names   map[string]bool
	changed signal.Broadcast
}

func newChanging() *changing {
	return &changing{Selector: fields.OneTermEqualSelector(metav1.ObjectNameField, "x"), names: map[string]bool{}}
}

// Matches implements fields.Selector.
func (c *changing) Matches(of fields.Fields) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[of.Get(metav1.ObjectNameField)]
}

// Changed tells a rule.
func (c *changing) Changed() <-chan struct{} { return c.changed.Wait() }

// flip selects a name, or selects it no more.
func (c *changing) flip(name string) {
	c.mu.Lock()
	c.names[name] = !c.names[name]
	c.mu.Unlock()
	c.changed.Notify()
}

// kept returns the names of a store.
func kept(s cache.Store) map[string]bool {
	names := map[string]bool{}
	for _, obj := range s.List() {
		names[obj.(*corev1.Pod).Name] = true
	}
	return names
}

// TestWhatIsKeptChanges: a Reflector has what the selector of now selects, whatever is written, cut off and selected meanwhile.
func TestWhatIsKeptChanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			g, dice, by := NewWithT(t), rand.New(rand.NewPCG(seed+round, 2)), newChanging()
			server := newPods(rand.New(rand.NewPCG(seed+round, 1)))
			target := &Target{Rule: projection.RuleOf([]client.ListOptions{{FieldSelector: by}}, nil)}
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			lw := New(target.Projected(podSource{server, ""}), Options{
				Bookmarks: true, Unstreamed: true, IdleTimeout: 3 * time.Minute, Cut: func(time.Duration) {}, Lists: new(Failures).Relist(target.Rule.Changed()),
			})
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { cache.NewReflectorWithOptions(lw, nil, store, cache.ReflectorOptions{}).RunWithContext(ctx) })
			defer running.Wait()
			defer stop()

			settled := func() {
				t.Helper()
				time.Sleep(90 * time.Second)
				synctest.Wait()
				server.mu.Lock()
				want := map[string]bool{}
				for _, in := range server.at(len(server.log)) {
					for name := range in {
						if by.Matches(fields.Set{metav1.ObjectNameField: name}) {
							want[name] = true
						}
					}
				}
				server.mu.Unlock()
				g.Expect(kept(store)).To(Equal(want), "seed %d", seed+round)
			}
			for range 100 {
				name := fmt.Sprint(dice.IntN(20))
				switch n := dice.IntN(20); {
				case n < 8:
					server.write("shop", name)
				case n < 14:
					by.flip(name)
				case n == 14:
					server.end(func(*podWatch) bool { return true })
				case n == 15:
					server.compact()
				case n == 16:
					settled()
				default:
					time.Sleep(time.Duration(dice.IntN(2000)) * time.Millisecond)
				}
			}
			settled()

			before := server.asked("")
			by.flip("1")
			by.flip("2")
			settled()
			g.Expect(server.asked("")).To(BeNumerically("<=", before+3), "one list, and its watch, for changes at a time")
			before = server.asked("")
			time.Sleep(4 * time.Minute)
			g.Expect(server.asked("")).To(BeNumerically("<=", before+2), "nothing without a change")
		})
	}
}

// TestWhatWasCutLeaves, also if the rule keeps it when the event is finished: nothing but its metadata has come.
func TestWhatWasCutLeaves(t *testing.T) {
	g, by := NewWithT(t), newChanging()
	message, err := (&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string][]byte{"a": make([]byte, 1<<10)}}).Marshal()
	g.Expect(err).NotTo(HaveOccurred())
	target := &Target{Rule: projection.RuleOf([]client.ListOptions{{FieldSelector: by}}, nil)}
	received, ok := undecodedMessage(message, target.keep(&corev1.Secret{}))
	g.Expect(ok).To(BeTrue())
	by.flip("x")
	event := target.Projected(given{example: &corev1.Secret{}}).Finish(watch.Event{Type: watch.Modified, Object: received})
	g.Expect(event.Type).To(Equal(watch.Deleted))
	g.Expect(event.Object).To(BeAssignableToTypeOf(projection.Left{}))
}
