// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// away is an API server that cannot be reached: each request fails in the same way.
type away func(*http.Request) (*http.Response, error)

func (a away) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestWhatTheEndOfAnInformerCancelsIsNoFailure(t *testing.T) {
	g := NewWithT(t)
	failed := &Failures{}
	client := failed.Client(&http.Client{Transport: away(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() })})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/pods?watch=true", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.Do(request)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(failed.Last()).To(BeNil())
}

// failing is a source whose requests and events say that something failed.
type failing struct{ Source }

func (failing) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, apierrors.NewInternalError(errors.New("of the list"))
}

func (failing) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if opts.ResourceVersion != "" {
		return watch.NewFake(), nil
	}
	return nil, apierrors.NewInternalError(errors.New("of the watch"))
}

func (failing) Finish(e watch.Event) watch.Event { return e }

// TestWhatFailsAfterForgetIsOfBefore: the kind was dormant while the API server answered, a worker decoded, or the
// Reflector was about to tell its error handler.
func TestWhatFailsAfterForgetIsOfBefore(t *testing.T) {
	status := apierrors.NewInternalError(errors.New("of an event")).Status()
	ask := func(f *Failures, ctx context.Context) {
		client := f.Client(&http.Client{Transport: away(func(*http.Request) (*http.Response, error) { return nil, errors.New("of the connection") })})
		if request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/pods", http.NoBody); err == nil {
			_, _ = client.Do(request)
		}
	}
	for name, fail := range map[string]func(*Failures, context.Context){
		"request": ask,
		"list":    func(f *Failures, ctx context.Context) { _, _ = f.Source(failing{}).List(ctx, metav1.ListOptions{}) },
		"watch":   func(f *Failures, ctx context.Context) { _, _ = f.Source(failing{}).Watch(ctx, metav1.ListOptions{}) },
		"event": func(f *Failures, ctx context.Context) {
			source := f.Source(failing{})
			_, _ = source.Watch(ctx, metav1.ListOptions{ResourceVersion: "5"})
			source.Finish(watch.Event{Type: watch.Error, Object: &status})
		},
		"error handler": func(f *Failures, ctx context.Context) { f.Handler(ignore)(ctx, nil, errors.New("of the attempt")) },
	} {
		t.Run(name, func(t *testing.T) {
			g, failed := NewWithT(t), &Failures{}
			first, sleep := context.WithCancel(t.Context())
			fail(failed, first)
			g.Expect(failed.Last()).NotTo(BeNil())
			sleep()
			failed.Forget()
			fail(failed, first)
			g.Expect(failed.Last()).To(BeNil())
			fail(failed, t.Context())
			g.Expect(failed.Last()).To(HaveField("Attempts", 1), "it is counted from nothing")
			fail(failed, first)
			g.Expect(failed.Last()).To(HaveField("Attempts", 1))
		})
	}
}

func ignore(context.Context, *toolscache.Reflector, error) {}
