// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// childVariable in the environment makes this program a measured process: it reads
// a brief from standard input and writes its findings to standard output.
const childVariable = "TARN_BENCH_CHILD"

// brief tells a measured process what to do.
type brief struct {
	Cache, Trial string
	Measures     []string
	URL, Token   string
	Pods         int
	OtherHeap    int // bytes
	Seed         uint64
	Effort       effort
}

func (b brief) wants(measures ...string) bool {
	return slices.ContainsFunc(measures, func(m string) bool { return slices.Contains(b.Measures, m) })
}

// findings are what a measured process has to say.
type findings struct {
	// Values are by measure, in bytes or seconds.
	Values map[string]float64
	// Answers are what queries gave, in short; they must be the same for every
	// cache and round.
	Answers map[string]string
	// Remarks are for the reader of the table.
	Remarks []string
}

// spawn runs a measured process and waits for its end. If the context is cancelled
// it is killed.
func spawn(ctx context.Context, b brief, lists bool) (*findings, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a measured process: %w", err)
	}
	input, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("start a measured process: %w", err)
	}
	var out, errs bytes.Buffer
	child := exec.CommandContext(ctx, self)
	child.Env = append(os.Environ(), childVariable+"=1")
	if lists {
		child.Env = append(child.Env, "KUBE_FEATURE_WatchListClient=false")
	}
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(input), &out, &errs
	if err := child.Run(); err != nil {
		return nil, fmt.Errorf("the process that measured %s of %s failed: %w\n%s", b.Trial, b.Cache, err, strings.TrimSpace(errs.String()))
	}
	found := &findings{}
	if err := json.Unmarshal(out.Bytes(), found); err != nil {
		return nil, fmt.Errorf("the process that measured %s of %s wrote no findings: %w", b.Trial, b.Cache, err)
	}
	return found, nil
}

// childMain is the main function of a measured process. It returns the exit code.
func childMain(in io.Reader, out, errs io.Writer) int {
	found, err := measureOne(in)
	if err == nil {
		err = json.NewEncoder(out).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

func measureOne(in io.Reader) (*findings, error) {
	var b brief
	if err := json.NewDecoder(in).Decode(&b); err != nil {
		return nil, fmt.Errorf("read the brief: %w", err)
	}
	trials := map[string]func(context.Context, *subject) error{
		readTrial:         tryReads,
		sharedTrial:       tryShared,
		customTrial:       tryCustom,
		unstructuredTrial: tryUnstructured,
		eventsTrial:       tryEvents,
		fanOutTrial:       tryEvents,
		steadyTrial:       trySteady,
		steadyFanOutTrial: trySteady,
		idleTrial:         tryIdle,
	}
	try, ok := trials[b.Trial]
	if !ok {
		return nil, fmt.Errorf("there is no trial %q", b.Trial)
	}
	other := make([]byte, b.OtherHeap) // without pointers, and never touched: it makes collections as rare as in a manager
	defer runtime.KeepAlive(other)
	ctx := context.Background()
	s, err := newSubject(ctx, b)
	if err != nil {
		return nil, err
	}
	err = try(ctx, s)
	return &s.findings, errors.Join(err, s.stop())
}
