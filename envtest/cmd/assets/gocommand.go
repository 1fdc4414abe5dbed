// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// stopGrace is how long an interrupted go command may take to end its compilers before it is killed.
const stopGrace = 10 * time.Second

// goCommand runs the go command in the folder of the temporary module.
type goCommand struct {
	path string
	dir  string
	env  []string // beside that of this process
}

// findGo looks the go command up; dir is where it will run, and env what it gets beside this process's environment.
func findGo(dir string, env []string) (goCommand, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return goCommand{}, fmt.Errorf("the go command builds the binaries, but it was not found: put it on PATH (%w)", err)
	}
	return goCommand{path: path, dir: dir, env: env}, nil
}

// run runs go with args; output goes to stdout, a's counter gets stderr. hint is what to do when it fails.
func (g goCommand) run(ctx context.Context, stdout io.Writer, a *activity, hint string, args ...string) error {
	cmd := exec.CommandContext(ctx, g.path, args...)
	cmd.Dir = g.dir
	// The module is one of its own, built for this machine without a C compiler, whatever surrounds it.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GO111MODULE=on")
	cmd.Env = append(cmd.Env, g.env...)
	cmd.Stdout = stdout
	cmd.Stderr = a
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was published, the next run starts afresh")
	}
	return &goError{command: args[0], err: err, words: a.lastLines(), hint: hint}
}

// output is run for a command whose stdout is wanted.
func (g goCommand) output(ctx context.Context, a *activity, hint string, args ...string) ([]byte, error) {
	var stdout bytes.Buffer
	err := g.run(ctx, &stdout, a, hint, args...)
	return stdout.Bytes(), err
}

// goError is a failed go command: the command, its words, and what to do.
type goError struct {
	command string
	err     error
	words   string
	hint    string
}

func (e *goError) Error() string {
	hint := e.hint
	if strings.Contains(e.words, "no space left on device") {
		hint = "free some disk: the build cache (go env GOCACHE) and the module cache (go env GOMODCACHE) need about 3 GB"
	}
	return fmt.Sprintf("go %s: %v\n%s\n%s", e.command, e.err, e.words, hint)
}

func (e *goError) Unwrap() error { return e.err }
