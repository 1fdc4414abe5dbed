// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// TestASettingThatFailsIsTriedAgain: the namespaces are known when it has succeeded, and what has come meanwhile is set too.
func TestASettingThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := func(name string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}}
		}
		events := watch.NewFake()
		informer := toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{*named("a")}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil },
		}, noStreaming{}), &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		s := &Selected{entry: &informers.MapEntry{Informer: informer}, known: make(chan struct{}), logger: logr.Discard()}
		var set []string
		var works atomic.Bool
		attempts := 0
		go informer.RunWithContext(ctx)
		go func() {
			defer close(ended)
			s.Follow(ctx, func(_ context.Context, namespaces []string) error {
				if attempts++; !works.Load() {
					return errors.New("a wait was given up")
				}
				set = slices.Sorted(slices.Values(namespaces))
				return nil
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if attempts < 3 || s.IsKnown() {
			t.Errorf("%d attempts in a minute, known: %t", attempts, s.IsKnown())
		}
		events.Add(named("b"))
		works.Store(true)
		time.Sleep(pauses.Cap * 2)
		synctest.Wait()
		if !slices.Equal(set, []string{"a", "b"}) || !s.IsKnown() {
			t.Errorf("it has set %v, known: %t", set, s.IsKnown())
		}
		stop()
		<-ended
	})
}

// noStreaming is a client that cannot stream lists.
type noStreaming struct{}

func (noStreaming) IsWatchListSemanticsUnSupported() bool { return true }
