// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	pods     []int
	others   []int // MiB
	rounds   int
	caches   []string
	measures []string
	seed     uint64
	lists    bool
	effort   effort
	svg      string
	markdown string
	figures  string
	summary  string
}

// effort says how long to measure. It goes to the measured process as it is.
type effort struct {
	Clock         string        // counts times: wallClock or cpuClock
	Least, Most   time.Duration // of each kind of read, and of bursts
	Events        int           // of a burst
	Rate          int           // events a second when they come steadily
	Window, Limit time.Duration // of watching those: at least, and at most
	Lag           time.Duration // how far they may be behind the rate at the end
}

// parse returns the options, or an error that names what is wrong with them.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	pods := flags.String("pods", "100000", "numbers of `Pods`, separated by commas")
	others := flags.String("other-heap", "0", "`MiB` of other heap in each measured process, separated by commas; the summary and the plot take the most")
	caches := flags.String("caches", strings.Join(names(), ","), "`caches` to measure, separated by commas")
	measures := flags.String("measures", "all", "`measures` to take, separated by commas: "+strings.Join(measureIDs(), ", "))
	flags.IntVar(&o.rounds, "rounds", 3, "how often each cache is measured; the median counts")
	flags.Uint64Var(&o.seed, "seed", 1, "makes the Pods and chooses the queries")
	flags.BoolVar(&o.lists, "list-then-watch", false, "do without streaming lists")
	flags.StringVar(&o.effort.Clock, "clock", cpuClock, "what times are: `cpu`, which the process took on all cores, or wall")
	flags.DurationVar(&o.effort.Least, "calltime", time.Second, "how long each kind of read, and bursts, are repeated at least; then until the end of a collection")
	flags.DurationVar(&o.effort.Most, "calllimit", 10*time.Second, "how long at most")
	flags.IntVar(&o.effort.Events, "events", 10_000, "update `events` of a burst")
	flags.IntVar(&o.effort.Rate, "rate", 1000, "`events` a second when they come steadily")
	flags.DurationVar(&o.effort.Window, "window", 5*time.Second, "how long steady events are watched at least; then until the end of a collection")
	flags.DurationVar(&o.effort.Limit, "windowlimit", 30*time.Second, "how long at most")
	flags.DurationVar(&o.effort.Lag, "lag", 250*time.Millisecond, "how far behind the rate a busy machine may be at the end, and a tenth of the time")
	flags.StringVar(&o.svg, "svg", "", "`file` to write the plot to")
	flags.StringVar(&o.summary, "summary", "", "`file` to write the ratios of a few measures to, or README.md to have those in it replaced")
	flags.StringVar(&o.markdown, "markdown", "", "`file` to write all ratios and bounds to, or README.md to have those in it replaced")
	flags.StringVar(&o.figures, "figures", "", "`file` to write the tables to, as they are printed")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("argument %q is not a flag", flags.Arg(0))
	}
	var err error
	if o.pods, err = numbers("-pods", *pods, 1); err != nil {
		return nil, err
	}
	if o.others, err = numbers("-other-heap", *others, 0); err != nil {
		return nil, err
	}
	if o.caches, err = choose("-caches", *caches, names()); err != nil {
		return nil, err
	}
	if *measures == "all" {
		*measures = strings.Join(measureIDs(), ",")
	}
	if o.measures, err = choose("-measures", *measures, measureIDs()); err != nil {
		return nil, err
	}
	if _, err := choose("-clock", o.effort.Clock, clocks()); err != nil {
		return nil, err
	}
	return o, o.check()
}

// numbers returns those of a list, none of them less than least.
func numbers(name, list string, least int) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return nil, fmt.Errorf("%s: %q is not a number of at least %d", name, text, least)
		}
		all = append(all, n)
	}
	return all, nil
}

func (o *options) check() error {
	e := o.effort
	if o.rounds < 1 || e.Events < 1 || e.Rate < 1 || e.Least <= 0 || e.Most < e.Least || e.Window <= 0 || e.Limit < e.Window {
		return fmt.Errorf("-rounds, -events, -rate, -calltime and -window must be positive, and the limits not less than what they limit")
	}
	if (o.svg != "" || o.summary != "" || o.markdown != "") && len(o.caches) < 2 {
		return fmt.Errorf("-svg, -summary and -markdown show ratios: they need both caches")
	}
	return nil
}

// choose returns those of known that the list names, in the order of known.
func choose(name, list string, known []string) ([]string, error) {
	wanted := strings.Split(list, ",")
	for _, w := range wanted {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("%s: %q is unknown; known are %s", name, w, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !slices.Contains(wanted, k) }), nil
}
