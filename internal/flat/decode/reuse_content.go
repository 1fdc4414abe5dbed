// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"github.com/tarn-dev/tarn/internal/flat/form"
	"github.com/tarn-dev/tarn/internal/flat/plan"
)

// documentReusing is document with reuse of the content of another object.
func (d *decoder) documentReusing(into *map[string]any, like map[string]any) {
	b := d.other
	mark, same := d.byte(), false
	if mark == b.byte() {
		same = mark == 1 || mark == 2
	}
	switch {
	case !same:
		d.pos = max(d.pos-1, 0)
		d.document(into)
	case mark == 1:
		m, ok := d.contentReusing(like).(map[string]any)
		if !ok {
			d.fail()
		}
		*into = m
	default:
		meta := d.contentReusing(like["metadata"])
		h, otherH := d.uvarint(), b.uvarint()
		if h&form.ContentMask != form.ContentMap {
			d.fail()
			return
		}
		if otherH&form.ContentMask != form.ContentMap {
			b.fail() // corrupt, which does not concern this object
			otherH = 0
		}
		*into = d.pairsReusing(h>>form.ContentBits, otherH>>form.ContentBits, 1, like)
		if *into != nil {
			(*into)["metadata"] = meta
		}
	}
}

// contentKind is the plan of a content value, for same.
var contentKind = &plan.Plan{Kind: plan.KindContent}

// contentReusing is content with reuse of like. It compares only maps and lists, because other
// values are not worth sharing.
func (d *decoder) contentReusing(like any) any {
	switch l := like.(type) {
	case map[string]any:
		if l != nil && d.depth <= reusingDepth {
			if d.same(contentKind) {
				return l
			}
			return d.differentContent(l, nil)
		}
	case []any:
		if l != nil && d.depth <= reusingDepth {
			if d.same(contentKind) {
				return l[:len(l):len(l)]
			}
			return d.differentContent(nil, l)
		}
	}
	v := d.content()
	d.other.skipContent()
	return v
}

// differentContent reads a value that differs from the map m or the list l at the same place of the
// other object. It reuses what m or l contains.
func (d *decoder) differentContent(m map[string]any, l []any) any {
	b := d.other
	from, other := d.mark(), b.mark()
	h, back, entered := d.insideContent()
	otherH, otherBack, otherEntered := b.insideContent()
	tag, n, both := h&form.ContentMask, h>>form.ContentBits, otherH>>form.ContentBits
	var v any
	switch {
	case tag == form.ContentMap && otherH&form.ContentMask == form.ContentMap && m != nil:
		v = d.pairsReusing(n, both, 0, m)
	case tag == form.ContentList && otherH&form.ContentMask == form.ContentList && l != nil:
		v = d.listReusing(n, both, l)
	default:
		d.back(from)
		b.back(other)
		v = d.content()
		b.skipContent()
		return v
	}
	d.outside(back, entered)
	b.outside(otherBack, otherEntered)
	return v
}

// insideContent is inside for a content value.
func (d *decoder) insideContent() (h uint64, back place, entered bool) {
	if h = d.uvarint(); h&form.ContentMask == form.ContentShared {
		if back, entered = d.shared(h >> form.ContentBits); entered {
			h = d.uvarint()
		}
	}
	return h, back, entered
}

// pairsReusing is contentPairs with reuse of the map like. Other is the number of its pairs in the
// other object. Both objects have their keys in order.
func (d *decoder) pairsReusing(n, other uint64, extra int, like map[string]any) map[string]any {
	if n > uint64(len(d.buf)-d.pos) || !d.charge(48+form.ContentPair*int(n)) || !d.enter() {
		d.fail()
		return nil
	}
	b := d.other
	m := make(map[string]any, int(n)+extra)
	key, have := "", false // the next key of the other
	for i := uint64(0); i < n && !d.bad; i++ {
		k := d.string()
		for have || other > 0 {
			if !have {
				key, have = b.string(), true
				other--
			}
			if key >= k || b.bad {
				break
			}
			b.skipContent()
			have = false
		}
		if have && key == k {
			m[k] = d.contentReusing(like[k])
			have = false
		} else {
			m[k] = d.content()
		}
	}
	if have {
		b.skipContent()
	}
	for ; other > 0 && !b.bad; other-- {
		b.skipString()
		b.skipContent()
	}
	d.depth--
	return m
}

// listReusing is contentList with reuse of the list like. Other is the number of its elements in
// the other object.
func (d *decoder) listReusing(n, other uint64, like []any) []any {
	if n > uint64(len(d.buf)-d.pos) || !d.charge(24+16*int(n)) || !d.enter() {
		d.fail()
		return nil
	}
	l := make([]any, n)
	for i := 0; i < len(l) && !d.bad; i++ {
		switch {
		case uint64(i) < other && i < len(like):
			l[i] = d.contentReusing(like[i])
			continue
		case uint64(i) < other:
			d.other.skipContent()
		}
		l[i] = d.content()
	}
	for i := n; i < other && !d.other.bad; i++ {
		d.other.skipContent()
	}
	d.depth--
	return l
}
