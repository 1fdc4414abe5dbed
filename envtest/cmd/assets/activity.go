// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// tailLines is how much of a failed command's output an error carries: the cause stands in the last lines.
const tailLines = 12

// activity is an io.Writer for the output of a command at work: it counts the lines and keeps the last ones.
// It is safe for concurrent use.
type activity struct {
	mu      sync.Mutex // guards all below
	lines   int
	tail    []string
	partial []byte // the line that has not ended
}

// Write takes any piece of the output; it never fails.
func (a *activity) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.partial = append(a.partial, b...)
	for {
		line, rest, found := bytes.Cut(a.partial, []byte("\n"))
		if !found {
			return len(b), nil
		}
		a.lines++
		a.tail = append(a.tail, string(line))
		if len(a.tail) > tailLines {
			a.tail = a.tail[1:]
		}
		a.partial = rest
	}
}

// describe says how many lines were written, as a suffix; "" for none, and when they count nothing.
func (a *activity) describe(unit string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lines == 0 || unit == "" {
		return ""
	}
	return fmt.Sprintf(" (%d %s)", a.lines, unit)
}

// lastLines are the last lines, with an unfinished one.
func (a *activity) lastLines() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.TrimSpace(strings.Join(a.tail, "\n") + "\n" + string(a.partial))
}
