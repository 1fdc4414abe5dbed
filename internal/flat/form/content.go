// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package form

// A content value is a value inside an unstructured object. It is written as a number whose lowest
// three bits say what the other bits mean.
const (
	ContentEntry    = iota // a string: number of a dictionary entry
	ContentText            // a string: it follows, in the form that strings have elsewhere
	ContentConstant        // one of the constants below
	ContentInt             // an int64, zigzag, if it fits
	ContentMap             // number of pairs that follow
	ContentList            // number of elements that follow
	ContentShared          // a map or list: number of a dictionary entry that holds it
	ContentMask     = 7
	ContentBits     = 3
)

// The constants of ContentConstant: values that need no more bytes, and marks before a longer
// value.
const (
	ConstantNil = iota
	ConstantFalse
	ConstantTrue
	ConstantNilMap
	ConstantNilList
	ConstantFloat  // eight bytes follow
	ConstantInt    // eight bytes follow
	ConstantNumber // a json.Number: a string follows
)
