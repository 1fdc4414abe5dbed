// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestAnImpatientClientDoesNotWait asks a server that wants to be asked again in an hour.
func TestAnImpatientClientDoesNotWait(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(Impatient(&rest.Config{Host: server.URL}))
	_, err := client.CoreV1().Pods("a").Get(t.Context(), "a", metav1.GetOptions{})
	if !apierrors.IsTooManyRequests(err) || asked.Load() != 1 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}
