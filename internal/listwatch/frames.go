// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"io"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
)

// largestFrame bounds the bytes of an event, about, as client-go does.
const largestFrame = 16 << 20

// frames decodes the frames of a watch, as streaming.NewDecoder does. While it waits for an event, it holds 512 bytes, because a
// thousand watches may wait. After an error it is not used any more. What it decodes may refer to the frame until the next
// call.
type frames struct {
	io.ReadCloser // reads a frame in one call, or as much of it as there is room for, and then returns io.ErrShortBuffer
	decoder       runtime.Decoder
	small         [512]byte
	large         *[]byte // of the last frame; nil if that was small
}

var _ streaming.Decoder = (*frames)(nil)

// Decode implements streaming.Decoder.
func (f *frames) Decode(defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if f.large != nil && cap(*f.large) <= largestMessage {
		largeFrames.Put(f.large)
	}
	f.large = nil
	frame, size := f.small[:], 0
	for {
		n, err := f.Read(frame[size:])
		size += n
		switch {
		case err == nil:
			return f.decoder.Decode(frame[:size], defaults, into)
		case err == io.EOF && size > 0:
			return nil, nil, io.ErrUnexpectedEOF
		case err != io.ErrShortBuffer:
			return nil, nil, err
		case size >= largestFrame:
			return nil, nil, streaming.ErrObjectTooLarge
		case f.large == nil:
			f.large = largeFrames.Get().(*[]byte)
			*f.large = append((*f.large)[:0], frame[:size]...)
		}
		*f.large = slices.Grow((*f.large)[:size], size)
		frame = (*f.large)[:cap(*f.large)]
	}
}

// largeFrames are buffers of up to largestMessage bytes. The pool of messages is another one: its buffers have the sizes of their messages.
var largeFrames = sync.Pool{New: func() any { return new([]byte) }}
