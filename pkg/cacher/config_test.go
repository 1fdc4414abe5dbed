// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// validConfig is a configuration that New accepts.
func validConfig() cacher.Config {
	s := newSetup()
	return cacher.Config{
		Storage: newMemoryStorage(), GroupResource: pods, ResourcePrefix: podPrefix, KeyFunc: s.keyFunc, GetAttrsFunc: podAttributes,
		NewFunc: newPod, NewListFunc: newPodList, Codec: s.codec,
	}
}

func TestConfigIsChecked(t *testing.T) {
	value := func(runtime.Object) string { return "" }
	for message, change := range map[string]func(*cacher.Config){
		"Config.Storage must be set":           func(c *cacher.Config) { c.Storage = nil },
		"Config.KeyFunc must be set":           func(c *cacher.Config) { c.KeyFunc = nil },
		"Config.GetAttrsFunc must be set":      func(c *cacher.Config) { c.GetAttrsFunc = nil },
		"Config.NewFunc must be set":           func(c *cacher.Config) { c.NewFunc = nil },
		"Config.NewListFunc must be set":       func(c *cacher.Config) { c.NewListFunc = nil },
		`ResourcePrefix cannot be ""`:          func(c *cacher.Config) { c.ResourcePrefix = "" },
		`ResourcePrefix cannot be "/"`:         func(c *cacher.Config) { c.ResourcePrefix = "/" },
		`"pods/" needs to start with /`:        func(c *cacher.Config) { c.ResourcePrefix = "pods/" },
		"2 IndexerFuncs":                       func(c *cacher.Config) { c.IndexerFuncs = storage.IndexerFuncs{"a": value, "b": value} },
		"EventsHistoryWindow 1s must not be":   func(c *cacher.Config) { c.EventsHistoryWindow = time.Second },
		"must not be negative":                 func(c *cacher.Config) { c.HistoryEvents = -1 },
		"HistoryBytes and ConsistencyInterval": func(c *cacher.Config) { c.HistoryBytes = -1 },
		"ConsistencyInterval must not be":      func(c *cacher.Config) { c.ConsistencyInterval = -1 },
		"codec doesn't seem to match the type": func(c *cacher.Config) { c.NewFunc = func() runtime.Object { return unknownObject{} } },
	} {
		t.Run(message, func(t *testing.T) {
			config := validConfig()
			change(&config)
			_, err := cacher.New(config)
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(message), ContainSubstring("cacher of pods"))))
		})
	}
}

// unknownObject is of a type that no codec knows.
type unknownObject struct{ runtime.Object }

func (unknownObject) DeepCopyObject() runtime.Object   { return unknownObject{} }
func (unknownObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// TestHistoryIsBounded shows each bound of the history: what a watcher that comes back after
// some events and some time finds.
func TestHistoryIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		window  time.Duration
		options cacher.Options
		events  int
		age     time.Duration
		kept    bool
	}{
		"few are kept for long":       {0, cacher.Options{}, 500, time.Hour, true},
		"many for the window":         {0, cacher.Options{}, 3000, time.Minute, true},
		"and no longer":               {0, cacher.Options{}, 3000, 2 * time.Minute, false},
		"but for one that is longer":  {10 * time.Minute, cacher.Options{}, 3000, 2 * time.Minute, true},
		"not more than so many":       {0, cacher.Options{HistoryEvents: 499}, 500, 0, false},
		"so many":                     {0, cacher.Options{HistoryEvents: 501}, 500, 0, true},
		"not more than so many bytes": {0, cacher.Options{HistoryBytes: 10_000}, 500, 0, false},
		"so many bytes":               {0, cacher.Options{HistoryBytes: 10_000_000}, 500, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			supportProgress(t)
			synctest.Test(t, func(t *testing.T) {
				s := newMemoryStorage()
				t.Cleanup(s.forwards.Wait)
				config := validConfig()
				config.Storage, config.EventsHistoryWindow, config.Options = s, test.window, test.options
				c, err := cacher.New(config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Stop)
				synctest.Wait()
				for n := range test.events {
					s.put(numbered("one", n))
				}
				synctest.Wait()
				time.Sleep(test.age)
				s.put(numbered("one", -1)) // what must go goes with a write
				synctest.Wait()
				event := <-watchAll(t, c, everything("2")).ResultChan()
				if kept := event.Type != watch.Error; kept != test.kept {
					t.Errorf("the first event after %d others is %v", test.events, event)
				}
			})
		})
	}
}

// TestLogger shows that a Cacher says what went wrong, and nothing without a logger.
func TestLogger(t *testing.T) {
	var logged strings.Builder
	logger := funcr.New(func(prefix, args string) { fmt.Fprintln(&logged, prefix, args) }, funcr.Options{})
	bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
		g := NewWithT(t)
		s.put(numbered("one", 0))
		synctest.Wait()
		g.Expect(logged.String()).To(BeEmpty())
		s.falsify(differences["another revision"])
		g.Expect(c.CheckConsistency(t.Context())).To(MatchError(cacher.ErrInconsistent))
		g.Expect(logged.String()).To(And(ContainSubstring("pods"), ContainSubstring(cacher.ErrInconsistent.Error())))
		s.falsify(nil)
	}, withOptions(cacher.Options{Logger: logger}))
}

// TestFlat shows that objects are kept in another form, which nobody can tell from outside.
func TestFlat(t *testing.T) {
	for _, flat := range []bool{false, true} {
		bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
			g := NewWithT(t)
			s.put(numbered("one", 0))
			synctest.Wait()
			var first, second example.Pod
			for _, pod := range []*example.Pod{&first, &second} {
				g.Expect(c.Get(t.Context(), podKey("default", "one"), storage.GetOptions{ResourceVersion: "0"}, pod)).To(Succeed())
			}
			g.Expect(first).To(Equal(second))
			first.Annotations["n"] = "changed"
			if flat { // each is made anew
				g.Expect(second.Annotations["n"]).To(Equal("0"))
			} else { // both share memory with the cache, as with upstream
				g.Expect(second.Annotations["n"]).To(Equal("changed"))
				g.Expect(c.CheckConsistency(t.Context())).To(MatchError(cacher.ErrInconsistent), "that somebody changed the cache is found")
				first.Annotations["n"] = "0"
			}
		}, withOptions(cacher.Options{Decoded: ptr.To(!flat)}))
	}
}
