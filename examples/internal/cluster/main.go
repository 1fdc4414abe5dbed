// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/internal/program"
)

// Flags are the flags of every example.
type Flags struct {
	Kubeconfig string
	Timeout    time.Duration
}

// Parse reads the flags from the arguments of a program, with the flags that the program has declared by
// package flag. For -h it prints the usage to out and returns flag.ErrHelp.
func Parse(name string, args []string, out io.Writer) (Flags, error) {
	var f Flags
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are returned, and printed once
	set.StringVar(&f.Kubeconfig, "kubeconfig", "", "use the cluster of this `file` instead of an API server in this process")
	set.DurationVar(&f.Timeout, "timeout", time.Minute, "give up after this `time`")
	flag.VisitAll(func(declared *flag.Flag) {
		if set.Lookup(declared.Name) == nil { // controller-runtime declares -kubeconfig, too
			set.Var(declared.Value, declared.Name, declared.Usage)
		}
	})
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		set.SetOutput(out)
		set.Usage()
	}
	if err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q: see %s -h", set.Arg(0), name)
	}
	if f.Timeout <= 0 {
		return f, fmt.Errorf("-timeout is %s: it must be above zero", f.Timeout)
	}
	if f.Kubeconfig != "" {
		if _, err := os.Stat(f.Kubeconfig); err != nil {
			return f, fmt.Errorf("-kubeconfig: %w", err)
		}
	}
	return f, nil
}

// Main is the main function of an example: it parses the flags, runs the program
// until it returns, is interrupted or takes too long, and exits with a status
// that says whether it succeeded.
func Main(run func(ctx context.Context, flags Flags, out io.Writer) error) {
	name := filepath.Base(os.Args[0])
	// Errors are returned; logs of the libraries would only hide the output of an example.
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())

	program.Main(name, func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		flags, err := Parse(name, args, stdout)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, flags.Timeout, fmt.Errorf("not done after %s", flags.Timeout))
		defer cancel()
		return run(ctx, flags, stdout)
	})
}
