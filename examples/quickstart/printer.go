// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// printer writes one line a step: what was done, the resourceVersion that came of
// it, and the time it took.
type printer struct {
	out     io.Writer
	err     error // the first one of writing
	started time.Time
}

func newPrinter(out io.Writer) *printer {
	p := &printer{out: out}
	p.line("rv, the resourceVersion: etcd's revision of an object, or that a list is complete to.")
	p.line("The time of an event counts from the start of its step.")
	return p
}

// section begins a group of steps, and its first step.
func (p *printer) section(title string) {
	p.line("")
	p.line(title)
	p.start()
}

// start begins a step.
func (p *printer) start() { p.started = time.Now() }

// step ends the step that was started.
func (p *printer) step(verb, what, version string) {
	p.row(verb, what, version, time.Since(p.started))
}

// event is told with the time since the step before it was started.
func (p *printer) event(e event, what string) {
	p.row("  event", what, e.version, e.at.Sub(p.started))
}

func (p *printer) row(verb, what, version string, took time.Duration) {
	if version != "" {
		version = "rv " + version
	}
	p.line(fmt.Sprintf("  %-8s %-48s %-10s %8s", verb, what, version, inUnits(took)))
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, strings.TrimRight(text, " "))
	}
}

// inUnits is short where time.Duration.String is exact.
func inUnits(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}
