// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/object"
)

// TestMain silences what upstream logs about the faults that tests bring about.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	if os.Getenv("TARN_VERIFY_FLAT") == "true" {
		object.VerifyAll()
	}
	// The last error handler delays an error by the time since the one before: in a bubble of
	// synctest, which begins in another year, that is forever.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	// Upstream's tests wait for seconds, and take no processor meanwhile.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
