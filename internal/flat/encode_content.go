// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// contentOwner returns the hash of the identity of u.
func (e *encoder) contentOwner(u *unstructured.Unstructured) uint32 {
	m, _ := u.Object["metadata"].(map[string]any)
	return e.identity(text(m, "uid"), text(m, "namespace"), text(m, "name"))
}

// text returns the string at key, or an empty one if there is none.
func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// contentHead writes the metadata that can be read without decoding the object: namespace, name,
// resourceVersion, uid, labels and annotations. Its form is that of the first fields of ObjectMeta
// in typed objects. The same strings occur again in the content, where they are written as short
// references.
func (e *encoder) contentHead(u *unstructured.Unstructured) {
	m, _ := u.Object["metadata"].(map[string]any)
	at := len(e.buf)
	e.buf = append(e.buf, zeros[:metadataPlan().groups[0].width]...)
	var bits byte
	for i, key := range [...]string{"namespace", "name", "resourceVersion", "uid"} {
		if s := text(m, key); s != "" {
			e.string(s)
			bits |= 1 << i
		}
	}
	for i, key := range [...]string{"labels", "annotations"} {
		if e.contentStrings(m[key]) {
			bits |= 1 << (4 + i)
		}
	}
	e.buf[at] = bits
}

// contentStrings writes v and returns true if v is a map whose values are all strings.
func (e *encoder) contentStrings(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || m == nil {
		return false
	}
	at := len(e.pairs.all)
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			e.pairs.pop(at)
			return false
		}
		e.pairs.all = append(e.pairs.all, pair{key: k, text: s})
	}
	e.stringPairs(at)
	return true
}

// document writes the content of an unstructured object. The metadata comes first, so that a
// decoder can read it alone.
func (e *encoder) document(m map[string]any) {
	if m == nil {
		e.buf = append(e.buf, 0)
		return
	}
	meta, ok := m["metadata"]
	if !ok {
		e.buf = append(e.buf, 1)
		e.content(m)
		return
	}
	e.buf = append(e.buf, 2)
	e.content(meta)
	e.contentPairs(m, "metadata")
}

// contentMap writes a map that is not nil, for a field of type map[string]any.
func (e *encoder) contentMap(m map[string]any) { e.content(m) }

// content writes one value.
func (e *encoder) content(v any) {
	switch v := v.(type) {
	case string:
		e.contentString(v)
	case map[string]any:
		e.contentObject(v)
	case []any:
		e.contentArray(v)
	case int64:
		e.contentInt(v)
	case float64:
		e.constant(constantFloat)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(v))
	case bool:
		if v {
			e.constant(constantTrue)
		} else {
			e.constant(constantFalse)
		}
	case nil:
		e.constant(constantNil)
	case json.Number:
		e.constant(constantNumber)
		e.strings++
		e.string(string(v))
	default:
		e.refuse(fmt.Sprintf("content of type %T", v))
	}
}

// constant writes one of the constants.
func (e *encoder) constant(c uint64) { e.tagged(contentConstant, c) }

// tagged writes a tag, which says what a value is, and the number n that belongs to it.
func (e *encoder) tagged(tag, n uint64) { e.uvarint(n<<contentBits | tag) }

// contentInt writes an int64. It counts the memory that the decoder needs to put it into an
// interface.
func (e *encoder) contentInt(v int64) {
	zigzag := uint64(v<<1) ^ uint64(v>>63)
	e.carve(8, 8)
	if zigzag>>(64-contentBits) != 0 {
		e.constant(constantInt)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, uint64(v))
		return
	}
	e.tagged(contentInt, zigzag)
}

// contentString writes a string value, or the number of the dictionary entry that holds it.
func (e *encoder) contentString(s string) {
	at := len(e.buf)
	e.buf = append(e.buf, contentText)
	e.string(s)
	if h := e.buf[at+1:]; h[0]&1 != 0 {
		id, _ := binary.Uvarint(h)
		e.buf = e.buf[:at]
		e.tagged(contentEntry, id>>1)
		return
	}
	e.strings++
}

// contentObject writes a map.
func (e *encoder) contentObject(m map[string]any) {
	if m == nil {
		e.constant(constantNilMap)
		return
	}
	at, before := len(e.buf), e.private
	e.contentPairs(m, "")
	e.contentShare(at, before)
}

// contentPairs writes the pairs of a map. A skip that is not empty is a key to leave out.
func (e *encoder) contentPairs(m map[string]any, skip string) {
	if !e.enter() {
		return
	}
	start := len(e.pairs.all)
	for k, v := range m {
		if skip == "" || k != skip {
			e.pairs.all = append(e.pairs.all, pair{key: k, content: v})
		}
	}
	pairs := e.pairs.sorted(start)
	e.tagged(contentMap, uint64(len(pairs)))
	e.charged += 48 + contentPair*len(pairs)
	for i := range pairs {
		e.string(pairs[i].key)
		e.content(pairs[i].content)
	}
	e.pairs.pop(start)
	e.depth--
}

// contentArray writes a list.
func (e *encoder) contentArray(l []any) {
	if l == nil {
		e.constant(constantNilList)
		return
	}
	if !e.enter() {
		return
	}
	at, before := len(e.buf), e.private
	e.tagged(contentList, uint64(len(l)))
	e.charged += 24 + 16*len(l)
	for _, v := range l {
		e.content(v)
	}
	e.contentShare(at, before)
	e.depth--
}

// contentShare is share for content values.
func (e *encoder) contentShare(at, before int) {
	if e.dict == nil || e.private != before || len(e.buf)-at < shortShared {
		return
	}
	b := stringOf(e.buf[at:])
	if id, ok := e.dict.Intern(e.dict.Hash(b), e.owner, b); ok {
		e.buf = e.buf[:at]
		e.tagged(contentShared, uint64(id))
	}
}
