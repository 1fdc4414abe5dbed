// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// lineLog is a logr.LogSink that remembers the text of each line, without its values.
type lineLog struct {
	mu    sync.Mutex
	lines []string // guarded by mu; each one once
}

var _ logr.LogSink = (*lineLog)(nil)

// controllerRuntimeLog returns what controller-runtime logs into, which can be set once.
var controllerRuntimeLog = sync.OnceValue(func() *lineLog {
	l := &lineLog{}
	ctrl.SetLogger(logr.New(l))
	return l
})

func (l *lineLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.lines, line) {
		l.lines = append(l.lines, line)
	}
}

func (l *lineLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
}

// String returns the lines, or nothing.
func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func (l *lineLog) Init(logr.RuntimeInfo)  {}
func (l *lineLog) Enabled(level int) bool { return level == 0 }

// Info leaves out what nearly every program of these tests does, and another chapter tells.
func (l *lineLog) Info(_ int, msg string, _ ...any) {
	if !strings.HasPrefix(msg, "A read has started an informer") {
		l.add(msg)
	}
}

func (l *lineLog) WithName(string) logr.LogSink   { return l }
func (l *lineLog) WithValues(...any) logr.LogSink { return l }
func (l *lineLog) Error(err error, msg string, _ ...any) {
	l.add(fmt.Sprintf("%s: %v", msg, err))
}
