// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package components

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarn-dev/tarn/envtest"
)

// fakeVariable has the test binary be a program, which does what the value says.
const fakeVariable = "TARN_FAKE_COMPONENT"

func TestMain(m *testing.M) {
	if does := os.Getenv(fakeVariable); does != "" {
		fake(does)
	}
	goleak.VerifyTestMain(m)
}

// fake writes its flags and what it finds in its kubeconfig, and then fails, exits, or waits for SIGTERM.
func fake(does string) {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	for _, arg := range os.Args[1:] {
		fmt.Println(arg)
		if path, ok := strings.CutPrefix(arg, "--kubeconfig="); ok {
			config, err := clientcmd.BuildConfigFromFlags("", path)
			info, statErr := os.Stat(path)
			if err := errors.Join(err, statErr); err != nil {
				fmt.Println(err)
				os.Exit(2)
			}
			fmt.Printf("host %s token %s mode %o\n", config.Host, config.BearerToken, info.Mode().Perm())
		}
	}
	fmt.Println("begun")
	switch does {
	case "fail":
		fmt.Fprintln(os.Stderr, "no such controller")
		os.Exit(3)
	case "exit":
		os.Exit(0)
	}
	for range terms {
		if does == "wait" {
			os.Exit(0)
		}
	}
}

// use has programs be the test binary, which does as it is told.
func use(t *testing.T, does string) string {
	t.Helper()
	t.Setenv(fakeVariable, does)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// begun collects a log, and says when a fake program has written all that it writes by itself.
type begun struct {
	text strings.Builder // of the program's goroutine, until all is closed
	all  chan struct{}
	over bool
}

func newBegun() *begun { return &begun{all: make(chan struct{})} }

func (b *begun) Write(p []byte) (int, error) {
	if b.over {
		return len(p), nil
	}
	b.text.Write(p)
	if b.over = strings.Contains(b.text.String(), "\nbegun\n"); b.over {
		close(b.all)
	}
	return 0, io.ErrClosedPipe // a log that fails must not end the program
}

var config = &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}

func TestAProgramThatEndsByItselfIsAnErrorWithItsLastLines(t *testing.T) {
	for does, want := range map[string][]string{
		"fail": {"kube-scheduler", "exit status 3", "no such controller"},
		"exit": {"kube-scheduler exited without an error", "begun"},
	} {
		t.Run(does, func(t *testing.T) {
			c := Scheduler(Options{Path: use(t, does)})
			if c.Err != nil {
				t.Fatal(c.Err)
			}
			err := c.Run(t.Context(), config)
			for _, part := range want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %v, without %q", err, part)
				}
			}
		})
	}
}

func TestAProgramIsToldAllAndEndsWhenToldTo(t *testing.T) {
	log := newBegun()
	t.Setenv("TMPDIR", t.TempDir())
	c := ControllerManager(Options{Path: use(t, "wait"), Controllers: []string{"job-controller", "-ttl"}, Args: []string{"--v=4"}, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, config) }()
	select {
	case <-log.all:
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	}
	for _, want := range []string{
		"host https://127.0.0.1:1 token secret mode 600", "--controllers=job-controller,-ttl\n", "--leader-elect=false\n",
		"--secure-port=0\n", "--v=4\nbegun\n",
	} {
		if !strings.Contains(log.text.String(), want) {
			t.Errorf("it was not told %q, but:\n%s", want, log.text.String())
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it was told to end, and ended with %v", err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestAProgramThatIgnoresSIGTERMIsKilled(t *testing.T) {
	log := newBegun()
	p := &program{name: "deaf", opts: Options{Log: log}, grace: 50 * time.Millisecond}
	p.flags = func(string, *rest.Config) ([]string, error) { return nil, nil }
	path := use(t, "ignore")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.run(ctx, path, config) }()
	select {
	case <-log.all:
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	}
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "after SIGTERM, and was killed") {
		t.Errorf("the error is %v", err)
	}
}

func TestStartRefusesWhatCannotRun(t *testing.T) {
	t.Setenv(assetsVariable, t.TempDir())
	missing := filepath.Join(t.TempDir(), "none")
	for name, test := range map[string]struct {
		controller envtest.Controller
		want       string
	}{
		"no file":               {ControllerManager(Options{Path: missing}), "assets -controller-manager"},
		"not among the assets":  {Scheduler(Options{}), "assets -scheduler"},
		"a name with a comma":   {ControllerManager(Options{Controllers: []string{"a,b"}}), `Controllers[0]: "a,b"`},
		"an empty name":         {ControllerManager(Options{Controllers: []string{"*", ""}}), `Controllers[1]: ""`},
		"controllers elsewhere": {Scheduler(Options{Controllers: []string{"*"}}), "is for kube-controller-manager"},
	} {
		t.Run(name, func(t *testing.T) {
			err := envtest.New(envtest.Options{Controllers: []envtest.Controller{test.controller}}).Start(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, without %q", err, test.want)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v does not wrap fs.ErrNotExist: no program is there in any of these", err)
			}
		})
	}
}
