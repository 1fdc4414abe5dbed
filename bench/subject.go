// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// subject is the cache that this process measures, started and synced.
type subject struct {
	brief
	findings
	cluster  synthetic.Cluster
	cache    ctrlcache.Cache
	informer ctrlcache.Informer
	stop     func() error // ends the cache and waits for it
}

// syncLimit is far above what 100,000 Pods take on a slow machine.
const syncLimit = 10 * time.Minute

// newSubject makes the cache with one field index, starts it, and waits until it has
// all Pods. How long that took, and the peak of memory, are its first findings.
func newSubject(ctx context.Context, b brief) (*subject, error) {
	log.SetLogger(logr.Discard())
	s := &subject{brief: b, cluster: synthetic.Cluster{Seed: b.Seed}}
	s.Values, s.Answers = map[string]float64{}, map[string]string{}
	if err := s.make(); err != nil {
		return nil, err
	}
	if err := s.cache.IndexField(ctx, s.example(), synthetic.NodeField, nodeName); err != nil {
		return nil, err
	}
	var err error
	if s.informer, err = s.cache.GetInformer(ctx, s.example(), ctrlcache.BlockUntilSynced(false)); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

func (s *subject) make() error {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	opts := ctrlcache.Options{Scheme: scheme.Scheme, Mapper: mapper}
	if s.Trial == sharedTrial {
		opts.ByObject = map[client.Object]ctrlcache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: new(true)}}
	}
	for _, c := range contenders() {
		if c.name == s.Cache {
			var err error
			s.cache, err = c.new(&rest.Config{Host: s.URL, BearerToken: s.Token}, opts)
			return err
		}
	}
	return fmt.Errorf("there is no cache %q", s.Cache)
}

// start counts the time from the call of Start until the informer says that it has
// synced. WaitForCacheSync is not used because controller-runtime's looks only ten
// times a second.
func (s *subject) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	begin := now()
	go func() { ended <- s.cache.Start(ctx) }()
	s.stop = func() error {
		cancel()
		return <-ended
	}
	select {
	case <-s.informer.HasSyncedChecker().Done():
	case <-time.After(syncLimit):
		return errors.Join(fmt.Errorf("%s has not synced in %v", s.Cache, syncLimit), s.stop())
	}
	var err error
	s.Values[syncTime], err = seconds(s.Effort.Clock, begin, now())
	if peakBytes, ok := peakRSS(); ok {
		s.Values[peak] = peakBytes
	}
	return err
}

// example returns an object of the representation that the trial is about.
func (s *subject) example() client.Object {
	if s.Trial != unstructuredTrial {
		return &corev1.Pod{}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return u
}

// list returns an empty list of the same representation.
func (s *subject) list() client.ObjectList {
	if s.Trial != unstructuredTrial {
		return &corev1.PodList{}
	}
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	return u
}

// nodeName is the one field index.
func nodeName(object client.Object) []string {
	switch pod := object.(type) {
	case *corev1.Pod:
		return []string{pod.Spec.NodeName}
	case *unstructured.Unstructured:
		if node, ok, err := unstructured.NestedString(pod.Object, "spec", "nodeName"); ok && err == nil {
			return []string{node}
		}
	}
	return nil
}
