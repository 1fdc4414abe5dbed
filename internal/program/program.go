// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program has what the commands of this module share: how they begin and end.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Run is the command without the process around it: args are the arguments after its name. It
// returns when it has done its work or ctx ends.
type Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// Main runs the command called name until it is interrupted, told to end, or its terminal is
// closed, and ends the process: with 0 if there was no error or if help was asked for, otherwise
// with 1 and the error on stderr.
func Main(name string, run Run) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
