// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestInformerFindsByRelistWhatItMissed(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/gone", "1"), configMap("ns/changed", "1"))
		r.start()
		r.server.put(configMap("ns/gone", "2"))
		r.settle()
		h.take()
		r.relist(func() {
			r.server.put(configMap("ns/new", "1"), configMap("ns/changed", "2"), configMap("ns/changed", "3"))
			r.server.put(configMap("ns/brief", "1"))
			r.server.remove("ns/gone", "ns/brief")
		})
		r.Expect(r.server.listed()).To(Equal(2))
		r.Expect(h.take()).To(ConsistOf("missed delete ns/gone=2", "update ns/changed=1>3", "add ns/new=1"))

		r.server.put(configMap("ns/new", "2"))
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"update ns/new=1>2"}), "the stream goes on")
	})
}

// Client-go tells handlers of unchanged objects too if it has not looked yet who
// wants a resync, which is never if the informer has no period.
func TestInformerRelistOfUnchangedObjects(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		h.take()
		r.relist(func() {})
		r.Expect(r.server.listed()).To(Equal(2))
		if r.impl.ours {
			r.Expect(h.take()).To(BeEmpty())
		} else {
			r.Expect(h.take()).To(Equal([]string{"update ns/a=1>1"}))
		}
	})
}

func TestInformerRelistIsNothingToAHandlerThatDoesNotResync(t *testing.T) {
	eachInformer(t, setting{resync: time.Minute}, func(r *rig) {
		h := &recording{}
		r.handleEvery(0, h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		h.take()
		r.elapse(90 * time.Second) // client-go has looked once who wants a resync
		r.relist(func() {})
		r.Expect(r.server.listed()).To(Equal(2))
		r.Expect(h.take()).To(BeEmpty())
	})
}

// TestInformerFindsTwoObjectsUnderOneKey: client-go passes on an update from one object to its
// namesake, as the comment of SharedInformer allows. Ours tells of two objects that there were
// two, also if they were kept decoded.
func TestInformerFindsTwoObjectsUnderOneKey(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		registration := r.handle(h)
		r.server.put(withUID("ns/a", "1", "first"), withUID("ns/b", "1", "other"), configMap("ns/c", "1"))
		r.start()
		h.take()
		r.relist(func() {
			r.server.remove("ns/a")
			r.server.put(withUID("ns/a", "2", "second"), withUID("ns/b", "2", "other"), configMap("ns/c", "2"))
		})
		others := []string{"update ns/b=1>2", "update ns/c=1>2"}
		if r.impl.ours {
			r.Expect(h.take()).To(Equal(append([]string{"missed delete ns/a=1", "add ns/a=2"}, others...)))
		} else {
			r.Expect(h.take()).To(ConsistOf(append(others, "update ns/a=1>2")))
		}
		r.Expect(registration.HasSynced()).To(BeTrue())
	})
}

// TestInformerTellsALaggingHandlerOfTwoObjects: of both, whatever it has not seen; client-go's
// sees every event.
func TestInformerTellsALaggingHandlerOfTwoObjects(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		h := &recording{before: func(event string) {
			if strings.HasPrefix(event, "update ns/busy") {
				door.pass()
			}
		}}
		r.handle(h)
		r.server.put(withUID("ns/a", "1", "first"), configMap("ns/busy", "0"))
		r.start()
		h.take()
		busy := func() {
			for range 2 * conformanceWindow {
				r.server.put(configMap("ns/busy", "1"))
			}
		}
		busy()
		r.settle()
		r.server.put(withUID("ns/a", "2", "first"))
		r.server.remove("ns/a")
		r.server.put(withUID("ns/a", "3", "second"), withUID("ns/a", "4", "second"))
		busy()
		r.settle()
		door.open()
		r.settle()
		var heard []string
		for _, event := range h.take() {
			if strings.Contains(event, "ns/a") {
				heard = append(heard, event)
			}
		}
		if r.impl.ours {
			r.Expect(heard).To(Equal([]string{"missed delete ns/a=1", "add ns/a=4"}))
		} else {
			r.Expect(heard).To(Equal([]string{"update ns/a=1>2", "delete ns/a=2", "add ns/a=3", "update ns/a=3>4"}))
		}
	})
}

func withUID(key, value string, uid types.UID) *corev1.ConfigMap {
	cm := configMap(key, value)
	cm.UID = uid
	return cm
}

func TestInformerRelistToNothing(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		h.take()
		r.relist(func() { r.server.remove("ns/a", "ns/b") })
		r.Expect(h.take()).To(ConsistOf("missed delete ns/a=1", "missed delete ns/b=1"))
		r.Expect(r.informer.GetStore().ListKeys()).To(BeEmpty())
		r.Expect(r.informer.LastSyncResourceVersion()).To(Equal(r.server.current()))
		r.Expect(r.informer.GetStore().LastStoreSyncResourceVersion()).To(Equal(r.server.current()))
	})
}

func TestInformerFollowsAServerThatWasRestored(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		for _, value := range []string{"1", "2", "3", "4"} {
			r.server.put(configMap("ns/a", value), configMap("ns/b", value))
		}
		r.start()
		h.take()
		r.relist(func() {
			r.server.restore(11)
			r.server.put(configMap("ns/a", "old"), configMap("ns/b", "old"))
		})
		r.Expect(h.take()).To(ConsistOf("update ns/a=4>old", "update ns/b=4>old"))
		r.Expect(r.informer.LastSyncResourceVersion()).To(Equal(r.server.current()))

		r.server.put(configMap("ns/a", "new"))
		r.server.remove("ns/b")
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"update ns/a=old>new", "delete ns/b=old"}))
		r.Expect(describeAll(r.informer.GetStore().List())).To(Equal([]string{"ns/a=new"}))
		r.Expect(r.informer.GetStore().LastStoreSyncResourceVersion()).To(Equal(r.server.current()))
	})
}

func TestInformerReportsFailedListsAndRecovers(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		broken := errors.New("the server is on fire")
		r.server.fail(broken)
		h := &recording{}
		r.handle(h)
		r.start()
		r.Expect(r.failures.take()).To(Equal([]string{"failed to list *v1.ConfigMap: the server is on fire"}))
		r.Expect(r.informer.HasSynced()).To(BeFalse())
		r.elapse(time.Minute)
		r.Expect(len(r.failures.take())).To(BeNumerically(">", 1), "it tries again")

		r.server.fail(nil)
		r.server.put(configMap("ns/a", "1"))
		r.elapse(time.Minute)
		r.Expect(r.informer.HasSynced()).To(BeTrue())
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1"}))
		r.Expect(r.failures.take()).To(BeEmpty())
	})
}

// TestInformerListsAgainAtOnce: an error that says so is no failure, and there is nothing to wait for.
func TestInformerListsAgainAtOnce(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		if !r.impl.ours {
			r.t.Skip("client-go's informer does not know such an error")
		}
		r.server.again = 3
		begun := time.Now()
		r.start()
		r.Expect(r.informer.HasSynced()).To(BeTrue())
		r.server.mu.Lock()
		if left := r.server.again; left < 3 { // a streaming list goes on as a watch
			r.Expect([]int{left, r.server.lists}).To(Equal([]int{0, 4}))
		}
		r.server.mu.Unlock()
		r.Expect(time.Since(begun)).To(BeZero())
		r.Expect(r.failures.take()).To(BeEmpty())
	})
}

func TestInformerPassesErrorsToBothKindsOfHandler(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		broken := errors.New("the server is on fire")
		var got error
		var revision string
		r.Expect(r.informer.SetWatchErrorHandler(func(reflector *toolscache.Reflector, err error) {
			got, revision = err, reflector.LastSyncResourceVersion()
		})).To(Succeed())
		r.start()
		synced := r.server.current()
		r.server.fail(broken)
		r.elapse(3 * time.Second)
		r.Expect(got).To(MatchError(broken))
		r.Expect(revision).To(Equal(synced))
		r.Expect(r.failures.take()).To(BeEmpty(), "the last handler that is set is the one")
	})
}

func TestInformerGivesTheErrorHandlerAContextThatEndsWithTheRun(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		var during context.Context
		r.Expect(r.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *toolscache.Reflector, _ error) {
			during = ctx
		})).To(Succeed())
		r.server.fail(errors.New("the server is on fire"))
		r.start()
		r.Expect(during.Err()).NotTo(HaveOccurred())
		r.stop()
		r.Expect(during.Err()).To(MatchError(context.Canceled))
	})
}

func TestInformerRevisionMovesWithEventsAndBookmarks(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		store := r.informer.GetStore()
		versions := func() []string {
			return []string{r.informer.LastSyncResourceVersion(), store.LastStoreSyncResourceVersion()}
		}
		both := func(version string) []string { return []string{version, version} }
		r.Expect(versions()).To(Equal(both("")))
		r.server.put(configMap("ns/a", "1"))
		r.server.bookmark() // the list is newer than its objects
		r.start()
		r.Expect(versions()).To(Equal(both(r.server.current())))
		for _, change := range []func(){
			func() { r.server.put(configMap("ns/b", "1")) },
			func() { r.server.put(configMap("ns/a", "2")) },
			func() { r.server.bookmark() },
			func() { r.server.remove("ns/a") },
			func() { r.server.bookmark() },
		} {
			change()
			r.settle()
			r.Expect(versions()).To(Equal(both(r.server.current())))
		}
	})
}

func TestInformerResumesTheWatchThatEnds(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.elapse(time.Minute)
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		r.server.disconnect()
		r.server.put(configMap("ns/a", "3"))
		r.server.remove("ns/a")
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1", "update ns/a=1>2", "update ns/a=2>3", "delete ns/a=3"}))
		r.Expect(r.server.listed()).To(Equal(1))
	})
}
