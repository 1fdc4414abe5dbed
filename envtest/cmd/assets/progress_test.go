// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStageBeatsWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out)
		err := p.stage("compiling", "packages", func(a *activity) error {
			<-time.After(heartbeat + time.Second)
			fmt.Fprintln(a, "example.com/a")
			fmt.Fprintln(a, "example.com/b")
			<-time.After(heartbeat)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		const want = `[    0s] compiling
[   10s] compiling ...
[   20s] compiling (2 packages) ...
[   21s] compiling: done (2 packages)
`
		if out.String() != want {
			t.Errorf("progress:\n%s\nwant:\n%s", &out, want)
		}
	})
}

func TestStageOfAFailureIsNotDone(t *testing.T) {
	var out bytes.Buffer
	failure := errors.New("no")
	if err := newProgress(&out).stage("compiling", "", func(*activity) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("error = %v", err)
	}
	if strings.Contains(out.String(), "done") {
		t.Errorf("a failed stage says %q", &out)
	}
}

func TestActivityCountsLinesAndKeepsTheLast(t *testing.T) {
	a := new(activity)
	for i := range tailLines + 3 {
		fmt.Fprintf(a, "line %d\n", i)
	}
	for _, piece := range []string{"half ", "a line\nand an", " end"} {
		if n, err := io.WriteString(a, piece); n != len(piece) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if got, want := a.describe("lines"), fmt.Sprintf(" (%d lines)", tailLines+4); got != want {
		t.Errorf("describe = %q, want %q", got, want)
	}
	if got := a.describe(""); got != "" {
		t.Errorf("describe without a unit = %q", got)
	}
	got := strings.Split(a.lastLines(), "\n")
	if len(got) != tailLines+1 || got[0] != "line 4" || got[len(got)-2] != "half a line" || got[len(got)-1] != "and an end" {
		t.Errorf("last lines: %q", got)
	}
}
