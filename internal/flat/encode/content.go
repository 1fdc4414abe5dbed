// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// contentOwner returns the hash of the identity of u.
func (w *writer) contentOwner(u *unstructured.Unstructured) uint32 {
	m, _ := u.Object["metadata"].(map[string]any)
	return w.identity(textAt(m, "uid"), textAt(m, "namespace"), textAt(m, "name"))
}

// textAt returns the string at key, or an empty one if there is none.
func textAt(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// contentHead writes the metadata that can be read without decoding the object: namespace, name,
// resourceVersion, uid, labels and annotations. Its form is that of the first fields of ObjectMeta
// in typed objects. The same strings occur again in the content, where they are written as short
// references.
func (w *writer) contentHead(u *unstructured.Unstructured) {
	m, _ := u.Object["metadata"].(map[string]any)
	at := len(w.buf)
	w.buf = append(w.buf, zeros[:plan.Metadata().Groups[0].Width]...)
	var bits byte
	for i, key := range [...]string{"namespace", "name", "resourceVersion", "uid"} {
		if s := textAt(m, key); s != "" {
			w.string(s)
			bits |= 1 << i
		}
	}
	for i, key := range [...]string{"labels", "annotations"} {
		if w.contentStrings(m[key]) {
			bits |= 1 << (4 + i)
		}
	}
	w.buf[at] = bits
}

// contentStrings writes v and returns true if v is a map whose values are all strings.
func (w *writer) contentStrings(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || m == nil {
		return false
	}
	at := len(w.pairs.all)
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			w.pairs.pop(at)
			return false
		}
		w.pairs.all = append(w.pairs.all, pair{key: k, text: s})
	}
	w.stringPairs(at)
	return true
}

// document writes the content of an unstructured object. The metadata comes first, so that a
// decoder can read it alone.
func (w *writer) document(m map[string]any) {
	if m == nil {
		w.buf = append(w.buf, 0)
		return
	}
	meta, ok := m["metadata"]
	if !ok {
		w.buf = append(w.buf, 1)
		w.content(m)
		return
	}
	w.buf = append(w.buf, 2)
	w.content(meta)
	w.contentPairs(m, "metadata")
}

// contentMap writes a map that is not nil, for a field of type map[string]any.
func (w *writer) contentMap(m map[string]any) { w.content(m) }

// content writes one value.
func (w *writer) content(v any) {
	switch v := v.(type) {
	case string:
		w.contentString(v)
	case map[string]any:
		w.contentObject(v)
	case []any:
		w.contentArray(v)
	case int64:
		w.contentInt(v)
	case float64:
		w.constant(form.ConstantFloat)
		w.buf = binary.LittleEndian.AppendUint64(w.buf, math.Float64bits(v))
	case bool:
		if v {
			w.constant(form.ConstantTrue)
		} else {
			w.constant(form.ConstantFalse)
		}
	case nil:
		w.constant(form.ConstantNil)
	case json.Number:
		w.constant(form.ConstantNumber)
		w.needs.strings++
		w.string(string(v))
	default:
		w.refuse(fmt.Sprintf("content of type %T", v))
	}
}

// constant writes one of the constants.
func (w *writer) constant(c uint64) { w.tagged(form.ContentConstant, c) }

// tagged writes a tag, which says what a value is, and the number n that belongs to it.
func (w *writer) tagged(tag, n uint64) { w.uvarint(n<<form.ContentBits | tag) }

// contentInt writes an int64. It counts the memory that the decoder needs to put it into an
// interface.
func (w *writer) contentInt(v int64) {
	zigzag := uint64(v<<1) ^ uint64(v>>63)
	w.needs.carve(8, 8)
	if zigzag>>(64-form.ContentBits) != 0 {
		w.constant(form.ConstantInt)
		w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(v))
		return
	}
	w.tagged(form.ContentInt, zigzag)
}

// contentString writes a string value, or the number of the dictionary entry that holds it.
func (w *writer) contentString(s string) {
	at := len(w.buf)
	w.buf = append(w.buf, form.ContentText)
	w.string(s)
	if h := w.buf[at+1:]; h[0]&1 != 0 {
		id, _ := binary.Uvarint(h)
		w.buf = w.buf[:at]
		w.tagged(form.ContentEntry, id>>1)
		return
	}
	w.needs.strings++
}

// contentObject writes a map.
func (w *writer) contentObject(m map[string]any) {
	if m == nil {
		w.constant(form.ConstantNilMap)
		return
	}
	at, before := len(w.buf), w.private
	w.contentPairs(m, "")
	w.contentShare(at, before)
}

// contentPairs writes the pairs of a map. A skip that is not empty is a key to leave out.
func (w *writer) contentPairs(m map[string]any, skip string) {
	if !w.enter() {
		return
	}
	start := len(w.pairs.all)
	for k, v := range m {
		if skip == "" || k != skip {
			w.pairs.all = append(w.pairs.all, pair{key: k, content: v})
		}
	}
	pairs := w.pairs.sorted(start)
	w.tagged(form.ContentMap, uint64(len(pairs)))
	w.needs.charged += 48 + form.ContentPair*len(pairs)
	for i := range pairs {
		w.string(pairs[i].key)
		w.content(pairs[i].content)
	}
	w.pairs.pop(start)
	w.depth--
}

// contentArray writes a list.
func (w *writer) contentArray(l []any) {
	if l == nil {
		w.constant(form.ConstantNilList)
		return
	}
	if !w.enter() {
		return
	}
	at, before := len(w.buf), w.private
	w.tagged(form.ContentList, uint64(len(l)))
	w.needs.charged += 24 + 16*len(l)
	for _, v := range l {
		w.content(v)
	}
	w.contentShare(at, before)
	w.depth--
}

// contentShare is share for content values.
func (w *writer) contentShare(at, before int) {
	if w.dict == nil || w.private != before || len(w.buf)-at < shortShared {
		return
	}
	b := form.StringOf(w.buf[at:])
	if id, ok := w.dict.Intern(w.dict.Hash(b), w.owner, b); ok {
		w.buf = w.buf[:at]
		w.tagged(form.ContentShared, uint64(id))
	}
}
