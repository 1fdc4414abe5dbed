// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// PollInterval is short, because nearly all that is waited for is there at the first look.
const PollInterval = time.Millisecond

// ErrEnded is the cause with which work ends when the server stops.
var ErrEnded = errors.New("the environment is not running: call Start first, and nothing after Stop")

// WhileRunning returns a context that also ends when run does, with ErrEnded as its cause. The function ends it.
func WhileRunning(ctx, run context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(run, func() { cancel(ErrEnded) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// Poll asks again and again until there is an answer. For what tells nobody when it changes.
func Poll(ctx context.Context, done func() (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, PollInterval, true, func(context.Context) (bool, error) { return done() })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
