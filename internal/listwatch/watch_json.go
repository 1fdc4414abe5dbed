// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// jsonFramer cuts a stream of JSON objects.
type jsonFramer struct{ runtime.Framer }

// NewFrameReader implements runtime.Framer. It returns a reader that reads one object in each call
// of Read, or as much of it as there is room for, and then io.ErrShortBuffer.
func (jsonFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &jsonFrameReader{source: r, buffer: bufio.NewReader(r)}
}

// jsonFrameReader finds the ends of the objects by their braces.
type jsonFrameReader struct {
	source io.Closer
	buffer *bufio.Reader
	braces
}

var errNoObject = errors.New("the watch sent something that is no JSON object")

// Read implements io.Reader.
func (r *jsonFrameReader) Read(into []byte) (n int, err error) {
	for n < len(into) {
		if r.buffer.Buffered() == 0 {
			if _, err := r.buffer.Peek(1); err != nil {
				if err == io.EOF && r.depth > 0 {
					err = io.ErrUnexpectedEOF
				}
				return n, err
			}
		}
		chunk, _ := r.buffer.Peek(min(r.buffer.Buffered(), len(into)-n))
		if r.depth == 0 {
			space := len(chunk) - len(bytes.TrimLeft(chunk, " \t\r\n"))
			if space > 0 {
				_, _ = r.buffer.Discard(space)
				continue
			}
			if chunk[0] != '{' {
				return 0, errNoObject
			}
		}
		size, ended := r.end(chunk)
		n += copy(into[n:], chunk[:size])
		_, _ = r.buffer.Discard(size)
		if ended {
			return n, nil
		}
	}
	return n, io.ErrShortBuffer
}

// Close implements io.Closer.
func (r *jsonFrameReader) Close() error { return r.source.Close() }

// braces finds the end of a JSON object or array, whose text may come in pieces.
type braces struct {
	depth    int
	inString bool
	escaped  bool
}

// end looks at the next piece of the text. It returns how much of it belongs to the value, and
// whether the value ends there.
func (s *braces) end(text []byte) (size int, ended bool) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case s.escaped:
			s.escaped = false
		case s.inString:
			switch c {
			case '"':
				s.inString = false
			case '\\':
				s.escaped = true
			}
		case c == '"':
			s.inString = true
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth <= 0 {
				s.depth = 0
				return i + 1, true
			}
		}
	}
	return len(text), false
}

// jsonEvent returns the type and the object of a WatchEvent that API servers write: an object of
// two fields.
func jsonEvent(data []byte) (eventType, object []byte, ok bool) {
	rest, begun := bytes.CutPrefix(data, []byte(`{"type":"`))
	end := bytes.IndexByte(rest, '"')
	if !begun || end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return nil, nil, false
	}
	object, more := bytes.CutPrefix(rest[end:], []byte(`","object":`))
	object, ended := bytes.CutSuffix(bytes.TrimRight(object, "\n"), []byte("}"))
	if !more || !ended || len(object) == 0 || object[0] != '{' {
		return nil, nil, false
	}
	size, whole := (&braces{}).end(object)
	return rest[:end], object, whole && size == len(object)
}

// jsonObject returns a copy of an object if it is of that kind. It looks for apiVersion and kind
// among the fields, which API servers write first.
func jsonObject(apiVersion, kind string, data []byte) (*undecoded, bool) {
	version, name := "", ""
	for rest := bytes.TrimPrefix(data, []byte("{")); version == "" || name == ""; {
		key, after, ok := cutText(rest)
		if !ok || len(after) == 0 || after[0] != ':' {
			return nil, false
		}
		value, after, ok := cutText(after[1:])
		if !ok || len(after) == 0 || after[0] != ',' {
			return nil, false
		}
		switch string(key) {
		case "apiVersion":
			version = string(value)
		case "kind":
			name = string(value)
		}
		rest = after[1:]
	}
	if version != apiVersion || name != kind {
		return nil, false
	}
	return &undecoded{json: append([]byte{}, data...)}, true
}

// jsonMetadata returns the metadata of an object, among the fields of which are texts and objects. It is not ok if there is another value
// before the metadata.
func jsonMetadata(data []byte) (metadata []byte, ok bool) {
	for rest := bytes.TrimPrefix(data, []byte("{")); ; {
		key, after, ok := cutText(rest)
		if !ok || len(after) < 2 || after[0] != ':' {
			return nil, false
		}
		value, after := after[1:], []byte(nil)
		if value[0] == '{' || value[0] == '[' {
			size, whole := (&braces{}).end(value)
			value, after, ok = value[:size], value[size:], whole
		} else {
			_, after, ok = cutText(value)
		}
		switch {
		case !ok || len(after) == 0:
			return nil, false
		case string(key) == "metadata":
			return value, true
		case after[0] != ',':
			return nil, false
		}
		rest = after[1:]
	}
}

// cutText returns the JSON string at the beginning of the text, unless it has an escape, and what
// follows it.
func cutText(text []byte) (value, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, text, false
	}
	end := bytes.IndexByte(text[1:], '"')
	if end < 0 || bytes.IndexByte(text[1:1+end], '\\') >= 0 {
		return nil, text, false
	}
	return text[1 : 1+end], text[2+end:], true
}
