// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"strings"
	"unique"
	"unsafe"

	"github.com/tarn-dev/tarn/internal/flat/form"
)

// string reads a string. It points into the object or the dictionary.
func (r *reader) string() string { return r.stringAfter(r.uvarint()) }

// stringAfter reads the string that h announces.
func (r *reader) stringAfter(h uint64) string {
	if h&1 != 0 {
		if s := r.view.Pointer(h >> 1); s != nil {
			return *s
		}
		r.fail()
		return ""
	}
	if h&2 != 0 {
		return r.earlier(h >> 2)
	}
	n := h >> 2
	if n > uint64(len(r.buf)-r.pos) {
		r.fail()
		return ""
	}
	s := r.buf[r.pos : r.pos+int(n)]
	r.pos += int(n)
	if len(r.buf) > form.PinLimit {
		return r.clone(s)
	}
	return s
}

// earlier returns the string that stands inline at another position.
func (r *reader) earlier(at uint64) string {
	s, ok := r.stringAt(at)
	if !ok {
		r.fail()
	}
	return s
}

// handle reads the string behind a unique.Handle.
func (r *reader) handle(p unsafe.Pointer) {
	*(*unique.Handle[string])(p) = unique.Make(r.string())
}

// stringAt returns the string at the position that a reference gives.
func (r *reader) stringAt(at uint64) (string, bool) {
	switch {
	case at == 0:
		return "", false
	case r.annex.Parts == nil:
		return form.InlineAt(r.body, uint64(r.base)+at)
	case (at-1)>>form.PartBits >= uint64(len(r.annex.Parts)):
		return "", false
	}
	return form.InlineAt(r.annex.Parts[(at-1)>>form.PartBits], (at-1)&(form.PinLimit-1))
}

// clone returns a copy of s. It is for a string that is too short to have memory of its own and
// would keep a large block.
func (r *reader) clone(s string) string {
	if !r.charge(len(s)) {
		return ""
	}
	return strings.Clone(s)
}
