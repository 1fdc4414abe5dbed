// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// familyLabel is what the goroutines of a family have in the profile.
const familyLabel = "family-under-test"

// family makes the calling goroutine the first of a family, until it leaves: all that it and
// its descendants start belong to it. The returned function lists them by their stacks,
// without the connections that http clients keep for their next request. The API server, in
// this process too, starts goroutines at any time; they are of no family.
func family(ctx context.Context) (list func() []string, leave func()) {
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(familyLabel, "")))
	list = func() (stacks []string) {
		GinkgoHelper()
		var profile bytes.Buffer
		Expect(pprof.Lookup("goroutine").WriteTo(&profile, 1)).To(Succeed())
		for stack := range strings.SplitSeq(profile.String(), "\n\n") {
			if strings.Contains(stack, familyLabel) && !strings.Contains(stack, "net/http.(*http2ClientConn).readLoop") {
				stacks = append(stacks, stack)
			}
		}
		return stacks
	}
	return list, func() { pprof.SetGoroutineLabels(ctx) }
}
