// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestInformerIsSyncedWhenTheFirstListIsIn(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		checker := r.informer.HasSyncedChecker()
		r.Expect(checker.Name()).To(ContainSubstring("*v1.ConfigMap"))
		r.Expect(r.informer.HasSynced()).To(BeFalse())

		release := r.server.hold()
		registration := r.handle(&recording{})
		r.start()
		r.Expect(r.informer.HasSynced()).To(BeFalse())
		r.Expect(toolscache.IsDone(checker)).To(BeFalse())
		r.Expect(registration.HasSynced()).To(BeFalse())

		release()
		r.settle()
		r.Expect(r.informer.HasSynced()).To(BeTrue())
		r.Expect(toolscache.IsDone(checker)).To(BeTrue())
		r.Expect(registration.HasSynced()).To(BeTrue(), "an empty list is a list")
		r.Expect(toolscache.IsDone(registration.HasSyncedChecker())).To(BeTrue())
	})
}

func TestInformerStaysSynced(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		registration := r.handle(&recording{})
		r.start()
		r.relist(func() { r.server.put(configMap("ns/a", "1")) })
		r.server.fail(context.DeadlineExceeded)
		r.elapse(time.Minute)
		r.Expect(r.informer.HasSynced()).To(BeTrue())
		r.stop()
		r.Expect(r.informer.HasSynced()).To(BeTrue())
		r.Expect(registration.HasSynced()).To(BeTrue())
	})
}

func TestInformerThatStopsBeforeItsFirstListIsNotSynced(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.server.hold()
		registration := r.handle(&recording{})
		r.start()
		r.stop()
		r.settle()
		r.Expect(r.informer.HasSynced()).To(BeFalse())
		r.Expect(registration.HasSynced()).To(BeFalse())
		r.Expect(r.informer.IsStopped()).To(BeTrue())
	})
}

func TestInformerRegistrationIsSyncedAfterItsInitialAdds(t *testing.T) {
	for name, late := range map[string]bool{"added before the start": false, "added later": true} {
		t.Run(name, func(t *testing.T) {
			eachInformer(t, setting{}, func(r *rig) {
				r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
				doors := []*gate{r.gate(), r.gate()}
				at := 0
				h := &recording{before: func(string) {
					doors[at].pass()
					at++
				}}
				if late {
					r.start()
				}
				registration := r.handle(h)
				checker := registration.HasSyncedChecker()
				if !late {
					r.start()
				}
				r.settle()
				r.Expect(r.informer.HasSynced()).To(BeTrue(), "the informer does not wait for handlers")
				for _, door := range doors {
					r.Expect(registration.HasSynced()).To(BeFalse())
					r.Expect(toolscache.IsDone(checker)).To(BeFalse())
					door.open()
					r.settle()
				}
				r.Expect(registration.HasSynced()).To(BeTrue())
				r.Expect(toolscache.IsDone(checker)).To(BeTrue())
			})
		})
	}
}

func TestInformerRegistrationDoesNotWaitForLaterEvents(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		r.server.put(configMap("ns/a", "1"))
		registration := r.handle(&recording{before: func(event string) {
			if event != "initial ns/a=1" {
				door.pass()
			}
		}})
		r.start()
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		r.Expect(registration.HasSynced()).To(BeTrue())
	})
}

func TestInformerNamesWhatIsSynced(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		registration := r.handle(&recording{})
		r.Expect(registration.HasSyncedChecker().Name()).To(And(
			ContainSubstring(r.informer.HasSyncedChecker().Name()),
			ContainSubstring("informer.recording"),
		))
		r.start()
		r.Expect(toolscache.WaitFor(r.t.Context(), "", r.informer.HasSyncedChecker(), registration.HasSyncedChecker())).To(BeTrue())
	})
}

func TestInformerControllerShowsTheInformer(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		controller := r.informer.GetController()
		controller.RunWithContext(r.t.Context()) // returns: only the informer can be run
		controller.Run(nil)
		r.Expect(r.server.listed()).To(BeZero())
		r.Expect(controller.HasSynced()).To(BeFalse())
		r.Expect(controller.LastSyncResourceVersion()).To(BeEmpty())

		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(controller.HasSynced()).To(BeTrue())
		r.Expect(toolscache.IsDone(controller.HasSyncedChecker())).To(BeTrue())
		r.Expect(controller.LastSyncResourceVersion()).To(Equal(r.server.current()))
	})
}

func TestInformerRunsOnce(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		ctx := klog.NewContext(r.t.Context(), logr.Discard())
		r.informer.RunWithContext(ctx) // returns at once
		r.settle()
		r.Expect(r.server.listed()).To(Equal(1))
		r.Expect(r.informer.IsStopped()).To(BeFalse())
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1", "update ns/a=1>2"}))

		r.stop()
		r.informer.RunWithContext(ctx)
		r.settle()
		r.Expect(r.server.listed()).To(Equal(1))
	})
}

func TestInformerRunsUntilItsChannelIsClosed(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			r.informer.Run(stop)
		}()
		r.settle()
		r.Expect(r.informer.HasSynced()).To(BeTrue())
		r.Expect(done).NotTo(BeClosed())
		close(stop)
		<-done
	})
}

func TestInformerRunReturnsIfItsContextHasEnded(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.informer.RunWithContext(ctx)
		r.Expect(r.informer.IsStopped()).To(BeTrue())
		r.Expect(r.informer.HasSynced()).To(BeFalse())
		r.Expect(h.take()).To(BeEmpty())
	})
}

func TestInformerRunReturnsAfterItsHandlers(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		h := &recording{before: func(string) { door.pass() }}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/a", "2"), configMap("ns/b", "1"))
		r.settle()
		r.cancel()
		r.settle()
		r.Expect(r.done).NotTo(BeClosed())
		door.open()
		r.settle()
		r.Expect(r.done).To(BeClosed())
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1"}), "what was pending is dropped")
	})
}

func TestInformerThatHasStopped(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.Expect(r.informer.IsStopped()).To(BeFalse())
		r.server.put(configMap("ns/a", "1"))
		h := &recording{}
		r.handle(h)
		r.start()
		r.Expect(r.informer.IsStopped()).To(BeFalse())
		r.stop()
		r.Expect(r.informer.IsStopped()).To(BeTrue())

		registration, err := r.informer.AddEventHandler(&recording{})
		r.Expect(err).To(HaveOccurred())
		r.Expect(registration).To(BeNil())
		r.Expect(r.informer.AddIndexers(toolscache.Indexers{"late": toolscache.MetaNamespaceIndexFunc})).NotTo(Succeed())
		r.Expect(describeAll(r.informer.GetStore().List())).To(Equal([]string{"ns/a=1"}), "reads still work")
		r.Expect(r.informer.LastSyncResourceVersion()).To(Equal(r.server.current()))
	})
}

func TestInformerRefusesToBeSetUpAfterTheStart(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.start()
		r.Expect(r.informer.SetTransform(func(obj any) (any, error) { return obj, nil })).NotTo(Succeed())
		r.Expect(r.informer.SetWatchErrorHandler(func(*toolscache.Reflector, error) {})).NotTo(Succeed())
		r.Expect(r.informer.SetWatchErrorHandlerWithContext(func(context.Context, *toolscache.Reflector, error) {})).NotTo(Succeed())
	})
}
