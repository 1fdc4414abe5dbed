// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcd's parts return few errors. When they cannot go on, they log that, and their logger ends the process or panics. This
// one notes the failure instead.

// harmless are messages after which etcd's code can go on, if nothing is read or written any more: the functions that say
// so go on with a new transaction, or return. To break off would leave locks behind that somebody waits for.
var harmless = []string{"failed to commit tx", "failed to rollback tx", "execute job failed"}

// failure is the first reason for which a server cannot go on. It is safe for concurrent use.
type failure struct {
	done chan struct{} // closed when there is one
	log  *zap.Logger   // writes nothing, and notes what would end the process

	mu      sync.Mutex
	err     error // guarded by mu; set before done is closed
	ignored bool  // guarded by mu
}

func newFailure() *failure {
	f := &failure{done: make(chan struct{})}
	f.log = zap.New(zapcore.NewNopCore(), zap.WithFatalHook(f), zap.WithPanicHook(f))
	return f
}

// get returns the failure, or nil.
func (f *failure) get() error {
	select {
	case <-f.done:
		return f.err // does not change any more
	default:
		return nil
	}
}

// set notes err, if it is the first.
func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && !f.ignored {
		f.err = err
		close(f.done)
	}
}

// ignore notes no failure any more.
func (f *failure) ignore() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ignored = true
}

// OnWrite implements zapcore.CheckWriteHook. It is called instead of the end of the process, or of a panic. It breaks off
// what the goroutine does, by a panic that rescue ends, unless that is worse.
func (f *failure) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	f.set(failureOf(entry.Message, fields))
	if !slices.Contains(harmless, entry.Message) {
		panic(brokenOff{failureOf(entry.Message, fields)})
	}
}

// failureOf makes an error of a log entry.
func failureOf(message string, fields []zapcore.Field) error {
	for _, field := range fields {
		if cause, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			return fmt.Errorf("etcd has failed: %s: %w", message, cause)
		}
	}
	return errors.New("etcd has failed: " + message)
}

// brokenOff is what OnWrite panics with.
type brokenOff struct{ error }

// rescue is deferred by all of this package that calls etcd's parts. If they broke off, it returns why through err.
func (f *failure) rescue(err *error) {
	switch r := recover().(type) {
	case nil:
	case brokenOff:
		*err = r.error
	default:
		panic(r)
	}
}
