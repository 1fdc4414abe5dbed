// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package form

const (
	// HeaderSize is the part of the header that has a fixed size.
	HeaderSize = 2
	// FlagMetadata says that an ObjectMeta comes first.
	FlagMetadata = 1
	// FlagContent says that it is the head of unstructured content.
	FlagContent = 2
	// FlagSections says that the header has a table of sections.
	FlagSections = 4
	// LeastBudget bounds the memory that decoding one Object may take, without its strings. The
	// encoder refuses larger objects. The bound is far above the size that an API server accepts.
	LeastBudget = 256 << 20
)

const (
	// MaxDepth is the number of levels after which an object is refused. An object that contains
	// itself is refused by it.
	MaxDepth = 1000
	// CarveLimit is the size in bytes up to which a pointer-free value is carved from the chunk
	// that a decoder allocates. A larger value gets memory of its own, so that it does not keep
	// others alive.
	CarveLimit = 4 << 10
	// CarveChunk is the size in bytes of the chunks of a larger object.
	CarveChunk = 2 * CarveLimit
	// LargestChunk (bytes) and LargestHeaders (strings) bound what a decoder allocates at once. It
	// allocates the rest when it needs it.
	LargestChunk   = 1 << 20
	LargestHeaders = 1 << 16
)

// The memory in bytes that one pair of a map takes, more or less.
const (
	StringPair   = 40
	QuantityPair = 90
	ContentPair  = 40
)

// Values of one type that stand behind several pointers and slices of an object are allocated
// together, in a slab. The encoder counts them. The header has the counts as pairs of bytes: the
// number of a type, and the number of its values. Like any recurring value, all pairs together may
// be the number of a dictionary entry.

const (
	SlabKinds = 63 // types in one object
	SlabSize  = 16 // values in one slab: a reader that keeps one of them keeps all
)
