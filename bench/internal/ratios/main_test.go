// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const output = `goos: linux
BenchmarkStoreList/tarn/Scope=Label-2         	    100	   3000 ns/op
BenchmarkStoreList/tarn/Scope=Label-2         	    100	   1000 ns/op
BenchmarkStoreList/tarn/Scope=Label-2         	    100	   2000 ns/op
BenchmarkStoreList/upstream/Scope=Label-2     	    100	   4000000 ns/op
BenchmarkFanOut/tarn/Watchers=10000/Burst=1-2     	    100	   9 ns/op	 5000 cpu-ns/op
BenchmarkFanOut/upstream/Watchers=10000/Burst=1-2 	    100	   9 ns/op	 5000 cpu-ns/op
BenchmarkObjects/upstream-2                   	      1	   9 ns/op	 20000 B/object
BenchmarkObjects/tarn-flat-2                  	      1	   9 ns/op	 2000 B/object
PASS
`

func TestTheTableHasMediansAndRatios(t *testing.T) {
	g := NewWithT(t)
	m, err := read(strings.NewReader(output))
	g.Expect(err).NotTo(HaveOccurred())
	var table strings.Builder
	g.Expect(m.print(&table, rows())).To(Succeed())
	g.Expect(strings.Split(strings.TrimSpace(table.String()), "\n")[2:]).To(HaveExactElements(
		"| list by one label (0.1 %) | 4.000ms | 2.000µs | 0.0005 | 0.05 |",
		"| dispatch, CPU per event: Watchers=10000, Burst=1 | 5.000µs | 5.000µs | **1** | 0.6 |",
		"| heap per object, flat | 19.53KiB | 1.953KiB | 0.1 | 0.2 |",
	))
}
