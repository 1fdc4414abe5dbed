// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
)

// Snapshot reads everything.
func (s *Contents) Snapshot(ctx context.Context) (*Snapshot, error) {
	ctx, leave, err := s.turn.take(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	made := &Snapshot{origin: s.snapshots}
	for entry, err := range s.gate.etcd.Read(ctx, storagekey.DefaultRoot+"/") {
		if err != nil {
			return nil, because(ctx, err)
		}
		if isDerived(entry) {
			continue
		}
		made.entries = append(made.entries, entry)
		made.Bytes += int64(len(entry.Key) + len(entry.Value))
	}
	made.entries = slices.Clip(made.entries)
	return made, nil
}

// turn is for the one call at a time that works on the whole state. The server waits for it when it stops.
type turn struct {
	run     context.Context // of the server
	room    chan struct{}   // for that call
	callers serving.Requests
}

func newTurn(run context.Context) *turn { return &turn{run: run, room: make(chan struct{}, 1)} }

// take returns when it is the caller's turn, until leave is called. The context also ends with the server.
func (t *turn) take(ctx context.Context) (_ context.Context, leave func(), _ error) {
	if !t.callers.Enter() {
		return nil, nil, serving.ErrEnded
	}
	ctx, end := serving.WhileRunning(ctx, t.run)
	select {
	case t.room <- struct{}{}:
		return ctx, func() {
			<-t.room
			end()
			t.callers.Leave()
		}, nil
	case <-ctx.Done():
		defer t.callers.Leave()
		defer end()
		return nil, nil, context.Cause(ctx)
	}
}

// KeepInitial notes the state of now, to which Reset goes back.
func (s *Contents) KeepInitial(ctx context.Context) (err error) {
	s.initial, err = s.Snapshot(ctx)
	return err
}

// Reset restores the initial state, except objects keep selects. keep may be nil.
func (s *Contents) Reset(ctx context.Context, keep func(schema.GroupResource, types.NamespacedName) bool) error {
	return s.replace(ctx, nil, keep)
}

// Restore makes the state that of the snapshot.
func (s *Contents) Restore(ctx context.Context, target *Snapshot) error {
	if target.origin != s.snapshots {
		return ErrForeign
	}
	return s.replace(ctx, target, nil)
}

// replace restores target, or the initial snapshot if nil, except objects keep selects.
func (s *Contents) replace(ctx context.Context, target *Snapshot, keep func(schema.GroupResource, types.NamespacedName) bool) error {
	ctx, leave, err := s.turn.take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if target == nil {
		target = s.initial
	}
	open := s.gate.close()
	defer open()
	p := &plan{locate: s.gate.builtin.locate, stores: s.parts.Custom.Count, target: target, keep: keep}
	writes, err := s.gate.etcd.Exchange(ctx, storagekey.DefaultRoot+"/", p.make)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", because(ctx, err))
	}
	s.gate.Removed.replaced(p.owners())
	if err := s.await(ctx, p, writes); err != nil {
		return fmt.Errorf("the objects are restored, but the server may still act on what was before: %w", because(ctx, err))
	}
	return nil
}

// because adds to an error why the context has ended, if it has.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
