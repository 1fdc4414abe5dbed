// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"hash/maphash"
	"strings"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/form"
)

// splitLength is the length in bytes from which a byte slice that is not in the dictionary is split
// into pieces, each of which may be in the dictionary.
const splitLength = 128

// string writes a string.
func (w *writer) string(s string) {
	if len(s) < shortString {
		w.needs.charged += len(s)
		w.inline(s)
		return
	}
	h := maphash.String(w.seed, s)
	if w.dict != nil {
		if id, ok := w.dict.Find(h, s); ok {
			w.uvarint(uint64(id)<<1 | 1)
			return
		}
	}
	if w.reference(h, s) {
		return
	}
	w.private++
	// A string that will stand alone goes to the parts at once if the object is certain to have
	// parts.
	if len(s) > form.PinLimit || len(s) > form.LongString && len(w.buf) > form.PinLimit {
		at := w.split.apart(s)
		w.uvarint(uint64(at)<<2 | 2)
		w.inlined.add(h, at, 0, 0)
		return
	}
	at := len(w.buf)
	w.split.mention(at, 0)
	w.inline(s)
	w.inlined.add(h, at-w.inlined.base, len(w.buf)-len(s), len(s))
}

// reference writes s, whose hash is h and which is not in the dictionary, as a reference. The
// reference is to the same string earlier in the object, or to the dictionary entry that s becomes
// now. It returns false if s is neither.
func (w *writer) reference(h uint64, s string) bool {
	if x := w.inlined.find(h); x != nil && w.inlinedText(x) == s {
		w.private++
		if x.len > 0 {
			w.split.mention(len(w.buf), w.inlined.base)
		}
		w.uvarint(uint64(x.at)<<2 | 2)
		return true
	}
	if w.dict != nil {
		if id, ok := w.dict.Offer(h, w.owner, s); ok {
			w.uvarint(uint64(id)<<1 | 1)
			return true
		}
	}
	return false
}

// inline writes a string with its bytes.
func (w *writer) inline(s string) {
	w.uvarint(uint64(len(s)) << 2)
	w.buf = append(w.buf, s...)
}

// bytes writes a byte slice that is not nil, like a string or in pieces.
func (w *writer) bytes(b []byte) {
	w.needs.carve(uintptr(len(b)), 1)
	w.needs.charged += len(b)
	s := form.StringOf(b)
	if w.dict == nil || len(s) < splitLength {
		w.string(s)
		return
	}
	if len(s) <= dictionary.LongestEntry { // the dictionary has no longer ones
		h := maphash.String(w.seed, s)
		if id, ok := w.dict.Find(h, s); ok {
			w.uvarint(uint64(id)<<1 | 1)
			return
		}
		if w.reference(h, s) {
			return
		}
	}
	w.uvarint(form.MarkPieces)
	w.uvarint(uint64(len(s)))
	for len(s) > 0 {
		n := pieceLength(s)
		w.string(s[:n])
		s = s[n:]
	}
}

// pieceLength returns the length of the next piece of s. Large byte slices in Kubernetes objects
// are mostly the FieldsV1 of managedFields. This is JSON that many objects have in common, except a
// few keys of list items like "k:{\"ip\":\"10.0.0.1\"}". So such a key is a piece of its own. A
// slice without such keys stays in one piece.
func pieceLength(s string) int {
	const before, after = `"k:{`, `}":`
	if strings.HasPrefix(s, before) {
		if i := strings.Index(s, after); i >= 0 {
			return i + len(after)
		}
		return len(s)
	}
	if i := strings.Index(s, before); i > 0 {
		return i
	}
	return len(s)
}

// metadataOwner returns the identity hash of the object with the ObjectMeta at p.
func (w *writer) metadataOwner(p unsafe.Pointer) uint32 {
	m := (*metav1.ObjectMeta)(p)
	return w.identity(string(m.UID), m.Namespace, m.Name)
}

// identity returns a hash of the UID or, without a UID, of name and namespace.
func (w *writer) identity(uid, namespace, name string) uint32 {
	if uid != "" {
		return uint32(maphash.String(w.seed, uid))
	}
	return uint32(maphash.String(w.seed, name) ^ maphash.String(w.seed, namespace)<<1)
}

// inlinedText returns the string that x remembers.
func (w *writer) inlinedText(x *inlinedSlot) string {
	if x.len == 0 {
		return w.split.at(int(x.at))
	}
	return form.StringOf(w.buf[x.start : x.start+x.len])
}
