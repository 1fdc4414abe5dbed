// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import "unsafe"

// documentBeside is document beside the content of another object.
func (d *decoder) documentBeside(into *map[string]any, like map[string]any) {
	switch d.byte() {
	case 0:
	case 1:
		m, ok := d.contentBeside(like).(map[string]any)
		if !ok {
			d.fail()
		}
		*into = m
	case 2:
		meta := d.contentBeside(like["metadata"])
		h := d.uvarint()
		if h&contentMask != contentMap {
			d.fail()
			return
		}
		*into = d.pairsBeside(h>>contentBits, 1, like)
		if *into != nil {
			(*into)["metadata"] = meta
		}
	default:
		d.fail()
	}
}

// contentBeside is content beside like. Only maps and lists are worth sharing.
func (d *decoder) contentBeside(like any) any {
	var memory unsafe.Pointer
	switch l := like.(type) {
	case map[string]any:
		memory = mapPointer(l)
	case []any:
		memory = unsafe.Pointer(unsafe.SliceData(l))
	}
	if memory == nil {
		return d.content()
	}
	if d.sameContent(like, memory) {
		if l, ok := like.([]any); ok && len(l) < cap(l) {
			return l[:len(l):len(l)]
		}
		return like
	}
	return d.differentContent(like)
}

// sameContent is same for content.
func (d *decoder) sameContent(like any, memory unsafe.Pointer) bool {
	if d.trail.next(memory) {
		return false
	}
	from := d.mark()
	if d.equalContent(like) {
		return true
	}
	if !d.bad {
		d.back(from)
	}
	d.trail.next(memory)
	return false
}

// differentContent reads a value that is not like; what is in it may still be in like.
func (d *decoder) differentContent(like any) any {
	from := d.mark()
	h := d.uvarint()
	n := h >> contentBits
	switch h & contentMask {
	case contentMap:
		if l, ok := like.(map[string]any); ok {
			if m := d.pairsBeside(n, 0, l); m != nil {
				return m
			}
			return nil
		}
	case contentList:
		if l, ok := like.([]any); ok {
			if l := d.listBeside(n, l); l != nil {
				return l
			}
			return nil
		}
	case contentShared:
		if back, ok := d.shared(n); ok {
			v := d.differentContent(like)
			d.leave(back)
			return v
		}
		return nil
	}
	if !d.bad {
		d.back(from)
	}
	return d.content()
}

// pairsBeside is contentPairs beside another map.
func (d *decoder) pairsBeside(n uint64, extra int, like map[string]any) map[string]any {
	if n > uint64(len(d.buf)-d.pos) || !d.charge(48+contentPair*int(n)) || !d.enter() {
		d.fail()
		return nil
	}
	m := make(map[string]any, int(n)+extra)
	for i := uint64(0); i < n && !d.bad; i++ {
		k := d.string()
		m[k] = d.contentBeside(like[k])
	}
	d.depth--
	return m
}

// listBeside is contentList beside another list.
func (d *decoder) listBeside(n uint64, like []any) []any {
	if n > uint64(len(d.buf)-d.pos) || !d.charge(24+16*int(n)) || !d.enter() {
		d.fail()
		return nil
	}
	l := make([]any, n)
	for i := 0; i < len(l) && !d.bad; i++ {
		if i < len(like) {
			l[i] = d.contentBeside(like[i])
		} else {
			l[i] = d.content()
		}
	}
	d.depth--
	return l
}
