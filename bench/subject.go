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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// subject is the cache that this process measures, started and synced.
type subject struct {
	brief
	findings
	cluster    synthetic.Cluster
	heapBefore float64 // of the process before it had a cache
	cache      ctrlcache.Cache
	informer   ctrlcache.Informer
	handlers   []*counter
	registered []toolscache.ResourceEventHandlerRegistration // of the handlers
	stop       func() error                                  // ends the cache and waits for it
}

// syncLimit is far above what 100,000 Pods take on a slow machine.
const syncLimit = 10 * time.Minute

// newSubject makes the cache with one field index and the trial's handlers, starts it, and waits
// until it has all Pods. The time of that is its first finding.
func newSubject(ctx context.Context, b brief) (*subject, error) {
	log.SetLogger(logr.Discard())
	s := &subject{brief: b, cluster: synthetic.Cluster{Seed: b.Seed}}
	s.Values, s.Answers = map[string]float64{}, map[string]string{}
	s.heapBefore = liveHeap()
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
	if err := s.addHandlers(handlersOf(s.Trial)); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

func (s *subject) addHandlers(n int) error {
	for range n {
		c := &counter{}
		registration, err := s.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: c.update})
		if err != nil {
			return err
		}
		s.handlers, s.registered = append(s.handlers, c), append(s.registered, registration)
	}
	return nil
}

// heapOfCache returns the heap beyond that of the process before: client libraries take some
// megabytes in any case.
func (s *subject) heapOfCache() float64 { return liveHeap() - s.heapBefore }

func (s *subject) make() error {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(synthetic.WorkloadKind, meta.RESTScopeNamespace)
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

// start counts what it takes from the call of Start until the informer says that it
// has synced, or until all handlers have had every object. WaitForCacheSync is not used
// because controller-runtime's looks only ten times a second.
func (s *subject) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	begin := now()
	go func() { ended <- s.cache.Start(ctx) }()
	s.stop = func() error {
		cancel()
		return <-ended
	}
	if err := s.await(s.informer.HasSyncedChecker()); err != nil {
		return errors.Join(err, s.stop())
	}
	synced := now()
	if err := s.awaitHandlers(); err != nil {
		return errors.Join(err, s.stop())
	}
	if peakBytes, ok := peakRSS(); ok {
		s.Values[peak] = peakBytes
	}
	var err1, err2, err3 error
	s.Values[syncTime], err1 = seconds(wallClock, begin, synced)
	s.Values[syncCPU], err2 = seconds(s.Effort.Clock, begin, synced)
	s.Values[initial], err3 = seconds(s.Effort.Clock, begin, now())
	return errors.Join(err1, err2, err3)
}

// awaitHandlers returns when all handlers have had the existing objects.
func (s *subject) awaitHandlers() error {
	for _, registration := range s.registered {
		if err := s.await(registration.HasSyncedChecker()); err != nil {
			return err
		}
	}
	return nil
}

func (s *subject) await(synced toolscache.DoneChecker) error {
	select {
	case <-synced.Done():
		return nil
	case <-time.After(syncLimit):
		return fmt.Errorf("%s of %s has not synced in %v", synced.Name(), s.Cache, syncLimit)
	}
}

// example returns an object of the representation that the trial is about.
func (s *subject) example() client.Object {
	switch s.Trial {
	case customTrial:
		return &synthetic.Workload{}
	case unstructuredTrial:
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(synthetic.WorkloadKind)
		return u
	}
	return &corev1.Pod{}
}

// list returns an empty list of the same representation.
func (s *subject) list() client.ObjectList {
	switch s.Trial {
	case customTrial:
		return &synthetic.WorkloadList{}
	case unstructuredTrial:
		u := &unstructured.UnstructuredList{}
		u.SetGroupVersionKind(synthetic.WorkloadKind.GroupVersion().WithKind("WorkloadList"))
		return u
	}
	return &corev1.PodList{}
}

// nodeName is the one field index.
func nodeName(object client.Object) []string {
	switch pod := object.(type) {
	case *corev1.Pod:
		return []string{pod.Spec.NodeName}
	case *synthetic.Workload:
		return []string{pod.Spec.NodeName}
	case *unstructured.Unstructured:
		if node, ok, err := unstructured.NestedString(pod.Object, "spec", "nodeName"); ok && err == nil {
			return []string{node}
		}
	}
	return nil
}
