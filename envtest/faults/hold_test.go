// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/tarn-dev/tarn/envtest/faults"
)

// TestHoldWaitsForWhatIsUnderWay has a rule that is used up while the answer that it holds is still to come.
func TestHoldWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		injector, answer := faults.New(), make(chan struct{})
		handler := injector.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
		hold, err := injector.HoldAnswers(faults.Rule{Verb: "get", Resource: "pods", Times: 1})
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces/default/pods/a", nil)
		go handler.ServeHTTP(httptest.NewRecorder(), request)
		synctest.Wait()
		if hold.Hits() != 1 {
			t.Fatal("the request is not there")
		}
		held := make(chan error, 1)
		go func() { held <- hold.Wait(context.Background(), 1) }()
		synctest.Wait()
		close(answer)
		synctest.Wait()
		if err := <-held; err != nil {
			t.Error(err)
		}
		hold.End()
	})
}

// TestHoldDoesNotWaitForWhatFailed has a handler that panics in place of the answer.
func TestHoldDoesNotWaitForWhatFailed(t *testing.T) {
	injector := faults.New()
	handler := injector.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	hold, err := injector.HoldAnswers(faults.Rule{Verb: "get", Resource: "pods", Times: 1})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces/default/pods/a", nil))
	}()
	if err := hold.Wait(t.Context(), 1); err == nil {
		t.Error("the answer that never came was waited for")
	}
}
