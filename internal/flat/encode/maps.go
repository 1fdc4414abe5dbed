// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// stringMap writes a map of strings that is not nil.
func (w *writer) stringMap(m map[string]string) {
	at := len(w.pairs.all)
	for k, v := range m {
		w.pairs.all = append(w.pairs.all, pair{key: k, text: v})
	}
	w.stringPairs(at)
}

// stringPairs writes the pairs from position at of the stack as a map of strings.
func (w *writer) stringPairs(at int) {
	start, before := len(w.buf), w.private
	pairs := w.pairs.sorted(at)
	w.uvarint(uint64(len(pairs)) << 1)
	w.needs.charged += len(pairs) * form.StringPair
	for i := range pairs {
		w.string(pairs[i].key)
		w.string(pairs[i].text)
	}
	w.pairs.pop(at)
	w.share(start, before)
}

// quantityMap writes a map of quantities that is not nil. Its key type may be a named string type,
// which has the same memory layout as string.
func (w *writer) quantityMap(t *plan.Plan, p unsafe.Pointer) {
	at := len(w.pairs.all)
	m := *(*map[string]resource.Quantity)(p)
	for k := range m {
		w.pairs.all = append(w.pairs.all, pair{key: k})
	}
	start, before := len(w.buf), w.private
	pairs := w.pairs.sorted(at)
	w.uvarint(uint64(len(pairs)) << 1)
	w.needs.charged += len(pairs) * form.QuantityPair
	for i := range pairs {
		w.string(pairs[i].key)
		w.pairs.value = m[pairs[i].key]
		w.quantity(unsafe.Pointer(&w.pairs.value))
	}
	w.pairs.value = resource.Quantity{}
	w.pairs.pop(at)
	w.share(start, before)
}
