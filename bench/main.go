// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures Tarn's cache against controller-runtime's own.
//
// It serves synthetic Pods over loopback HTTP from bytes encoded beforehand, and
// starts one process after the other, each with one cache, that reads them,
// measures, checks what it reads, and ends. Both caches have the same client, the
// same options and the same queries in the same order, and take turns. The result is
// a table of medians and their ratio. README.md beside this file says what each
// measure is.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tarn-dev/tarn/internal/program"
)

func main() {
	if os.Getenv(childVariable) != "" {
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	program.Main("bench", run)
}

// run measures as args say. It writes the tables to out, and what it is doing to
// progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	opts, err := parse(args, progress)
	if err != nil {
		return err
	}
	facts := describeMachine()
	fmt.Fprintln(progress, strings.Join(facts, ", "))
	results, err := measureAll(ctx, opts, progress)
	if err != nil {
		return err
	}
	text := report{facts: facts, opts: opts, results: results}
	if _, err := io.WriteString(out, text.table()); err != nil {
		return err
	}
	return text.write()
}
