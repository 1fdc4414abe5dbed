// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

// A content value is a value inside an unstructured object. It is written as a number whose lowest
// three bits say what the other bits mean.
const (
	contentEntry    = iota // a string: number of a dictionary entry
	contentText            // a string: it follows, in the form that strings have elsewhere
	contentConstant        // one of the constants below
	contentInt             // an int64, zigzag, if it fits
	contentMap             // number of pairs that follow
	contentList            // number of elements that follow
	contentShared          // a map or list: number of a dictionary entry that holds it
	contentMask     = 7
	contentBits     = 3
)

// The constants of contentConstant: values that need no more bytes, and marks before a longer
// value.
const (
	constantNil = iota
	constantFalse
	constantTrue
	constantNilMap
	constantNilList
	constantFloat  // eight bytes follow
	constantInt    // eight bytes follow
	constantNumber // a json.Number: a string follows
)
