// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server answers requests after a while.
type server struct {
	client.Reader
	delay    time.Duration
	mu       sync.Mutex
	requests int
	there    bool
}

func (s *server) Get(ctx context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	s.requests++
	there := s.there
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	out.SetName(key.Name)
	out.SetLabels(map[string]string{"from": "server"})
	return nil
}

func (s *server) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *server) reader(answers map[Answer]int) *Reader {
	var mu sync.Mutex
	return New(Options{
		Client: func() (client.Reader, error) { return s, nil },
		Answered: func(_ schema.GroupVersionKind, a Answer) {
			mu.Lock()
			defer mu.Unlock()
			answers[a]++
		},
	})
}

var one = Request{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Key: client.ObjectKey{Namespace: "default", Name: "one"}}

func TestOneRequestServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, answers := &server{delay: time.Second, there: true}, map[Answer]int{}
		r := s.reader(answers)
		outs := make([]*corev1.ConfigMap, 20)
		var all sync.WaitGroup
		for i := range outs {
			outs[i] = &corev1.ConfigMap{Data: map[string]string{"left": "over"}}
			all.Go(func() {
				if err := r.Get(t.Context(), one, outs[i]); err != nil {
					t.Error(err)
				}
			})
		}
		meta := &metav1.PartialObjectMetadata{}
		all.Go(func() {
			if err := r.Get(t.Context(), one, meta); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if s.made() != 2 {
			t.Errorf("%d requests, want one for each Go type", s.made())
		}
		outs[0].Labels["from"] = "me"
		if outs[1].Labels["from"] != "server" || outs[1].Data != nil || outs[1].Kind != "ConfigMap" || meta.Labels["from"] != "server" {
			t.Errorf("the objects must be the callers' own, whole, and have their kind: %v, %v", outs[1], meta)
		}
		if answers[Found] != 21 {
			t.Errorf("answers: %v", answers)
		}
	})
}

func TestWhatIsNotThereIsRememberedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, answers := &server{}, map[Answer]int{}
		r, out := s.reader(answers), &corev1.ConfigMap{}
		for range 10 {
			if err := r.Get(t.Context(), one, out); !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if s.made() != 1 || answers[NotFound] != 1 || answers[Known] != 9 {
			t.Errorf("%d requests, answers %v", s.made(), answers)
		}
		s.there = true
		time.Sleep(RememberFor + time.Millisecond)
		if err := r.Get(t.Context(), one, out); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := r.Get(t.Context(), one, out); err != nil {
				t.Error(err)
			}
		}
		if s.made() != 4 {
			t.Errorf("%d requests: what is there must not be kept", s.made())
		}
	})
}

// An object that the program has written is asked for anew, even if a request for it is under way.
func TestWhatIsForgottenIsAskedForAnew(t *testing.T) {
	for name, key := range map[string]client.ObjectKey{
		"one object": one.Key, "a namespace": {Namespace: one.Key.Namespace}, "all": {},
	} {
		t.Run(name, func(t *testing.T) { forgets(t, key) })
	}
}

// forgets has an object read before and after what is under a key was forgotten.
func forgets(t *testing.T, key client.ObjectKey) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Second}
		r := s.reader(map[Answer]int{})
		var all sync.WaitGroup
		all.Go(func() {
			if err := r.Get(t.Context(), one, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
		synctest.Wait()
		s.mu.Lock()
		s.there = true
		s.mu.Unlock()
		r.Forget(one.GVK, client.ObjectKey{Namespace: "other"})
		r.Forget(one.GVK, key)
		if err := r.Get(t.Context(), one, &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
		all.Wait()
		if err := r.Get(t.Context(), one, &corev1.ConfigMap{}); err != nil {
			t.Error("the answer of before was remembered:", err)
		}
	})
}

func TestACallerThatGivesUpDoesNotEndTheRequestOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, answers := &server{delay: 10 * time.Second, there: true}, map[Answer]int{}
		r := s.reader(answers)
		var all sync.WaitGroup
		defer all.Wait()
		hasty, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no time"))
		defer cancel()
		all.Go(func() {
			if err := r.Get(hasty, one, &corev1.ConfigMap{}); err == nil || !strings.Contains(err.Error(), "gave up reading ConfigMap default/one from the API server: no time") {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if err := r.Get(t.Context(), one, &corev1.ConfigMap{}); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if s.made() != 1 || answers[Unanswered] != 1 || answers[Found] != 1 {
			t.Errorf("%d requests, answers %v", s.made(), answers)
		}
	})
}

// When nobody waits, the request ends, and the next caller does not get its error.
func TestARequestEndsWithTheLastWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Hour, there: true}
		r := s.reader(map[Answer]int{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Get(ctx, one, &corev1.ConfigMap{}) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.delay = 0
		if err := r.Get(t.Context(), one, &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the bubble ends only when the first request has ended
		if len(r.flights) != 0 {
			t.Errorf("flights are left: %v", r.flights)
		}
	})
}

func TestTransforms(t *testing.T) {
	s := &server{there: true}
	r := s.reader(map[Answer]int{})
	for name, c := range map[string]struct {
		transform func(any) (any, error)
		want      string
	}{
		"of another type": {func(any) (any, error) { return &corev1.Secret{}, nil }, "made a *v1.Secret of a *v1.ConfigMap"},
		"that fails":      {func(any) (any, error) { return nil, errors.New("no") }, "transform of the cache failed: no"},
		"that panics":     {func(any) (any, error) { panic("oh") }, "the read panicked: oh"},
	} {
		t.Run(name, func(t *testing.T) {
			what := one
			what.Transform = c.transform
			if err := r.Get(t.Context(), what, &corev1.ConfigMap{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
