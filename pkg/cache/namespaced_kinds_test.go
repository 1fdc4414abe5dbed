// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// hangingMapper answers when it may.
type hangingMapper struct {
	meta.RESTMapper
	answer chan struct{}
	asked  atomic.Int64
}

// RESTMapping implements meta.RESTMapper.
func (m *hangingMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	m.asked.Add(1)
	<-m.answer
	return &meta.RESTMapping{Scope: meta.RESTScopeNamespace}, nil
}

// TestScopeOfAKindEndsWithTheContextWhileDiscoveryHangs asks as reads do where a cache has namespaces.
func TestScopeOfAKindEndsWithTheContextWhileDiscoveryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, gvk := NewWithT(t), corev1.SchemeGroupVersion.WithKind("Pod")
		mapper := &hangingMapper{answer: make(chan struct{})}
		c := &layout{
			namespaced: &namespacedKinds{mapper: mapper},
			defaults: &kindMaps{
				namespaced: newScopes(map[string]*informers.Map{"one": informers.NewMap(informers.Options{})}),
				cluster:    newScopes(map[string]*informers.Map{AllNamespaces: informers.NewMap(informers.Options{})}),
			},
		}
		for range 5 {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := c.scopesOf(ctx, gvk)
			cancel()
			g.Expect(time.Since(begun)).To(Equal(100 * time.Millisecond))
			g.Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
			var reason *informers.NotSyncedError
			g.Expect(errors.As(err, &reason)).To(BeTrue())
			g.Expect(reason.Cause).To(Equal(informers.Timeout))
		}
		g.Expect(mapper.asked.Load()).To(BeEquivalentTo(1))

		close(mapper.answer)
		s, err := c.scopesOf(t.Context(), gvk)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.maps).To(HaveLen(1))
		g.Expect(mapper.asked.Load()).To(BeEquivalentTo(2), "the first question is older than this call")
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.scopesOf(ended, gvk)
		g.Expect(err).NotTo(HaveOccurred(), "what is known needs no waiting")
		g.Expect(mapper.asked.Load()).To(BeEquivalentTo(2))
		c.namespaced.forget(gvk)
		_, err = c.scopesOf(t.Context(), gvk)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(mapper.asked.Load()).To(BeEquivalentTo(3), "as after RemoveInformer")
	})
}
