// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func TestParse(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, test := range map[string]struct {
		args []string
		want Flags
		err  string // part of the error; empty: none
	}{
		"defaults":           {args: nil, want: Flags{Timeout: time.Minute}},
		"all":                {args: []string{"-timeout", "5s", "-kubeconfig", "main_test.go"}, want: Flags{Timeout: 5 * time.Second, Kubeconfig: "main_test.go"}},
		"unknown flag":       {args: []string{"-nonsense"}, err: "-nonsense"},
		"argument":           {args: []string{"pods"}, err: `unexpected argument "pods"`},
		"no time":            {args: []string{"-timeout", "0s"}, err: "must be above zero"},
		"missing kubeconfig": {args: []string{"-kubeconfig", missing}, err: missing},
		"time that is none":  {args: []string{"-timeout", "soon"}, err: "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("example", test.args, &bytes.Buffer{})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("the error is %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %+v and %v, want %+v", got, err, test.want)
			}
		})
	}
}

var declared = flag.Int("declared", 1, "a `number` that one example has")

// TestParseReadsTheFlagsOfTheProgram also where controller-runtime has declared one of the same name as ours.
func TestParseReadsTheFlagsOfTheProgram(t *testing.T) {
	defer func(was int) { *declared = was }(*declared)
	if _, err := Parse("example", []string{"-declared", "400"}, &bytes.Buffer{}); err != nil || *declared != 400 {
		t.Errorf("the flag is %d, and the error is %v", *declared, err)
	}
}

func TestParsePrintsUsage(t *testing.T) {
	var out bytes.Buffer
	if _, err := Parse("example", []string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("the error is %v, want flag.ErrHelp", err)
	}
	for _, want := range []string{"-kubeconfig file", "-timeout time"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the usage has no %q:\n%s", want, out.String())
		}
	}
}

// TestRunCacheSaysWhyItDidNotSync lets a cache wait for a server that does not let it
// list.
func TestRunCacheSaysWhyItDidNotSync(t *testing.T) {
	env := envtest.Start(t)
	nobody := rest.AnonymousClientConfig(env.Config())
	cluster, err := connect(env.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := cache.New(nobody, cache.Options{
		Mapper:                   cluster.Client.RESTMapper(),
		DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) { cancel() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RunCache(ctx, c, &corev1.Pod{}); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the error is %v, want one that says forbidden", err)
	}
}
