// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// commandVariable is set in the process that a test started from itself to be the command.
const commandVariable = "TARN_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		main()
		return
	}
	if signal.Ignored(syscall.SIGHUP) { // by nohup: what a test starts would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}

// command is the command as a process of its own.
type command struct {
	*exec.Cmd
	folder     string // its folder for temporary files
	kubeconfig string
	stderr     bytes.Buffer
}

// startCommand returns when a command of its own folders has said that it answers.
func startCommand(t *testing.T, name string, args ...string) *command {
	t.Helper()
	c := &command{folder: t.TempDir(), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	c.start(t, name, args...)
	return c
}

// start runs a program, which is the command or becomes it, in the folders of c.
func (c *command) start(t *testing.T, name string, args ...string) {
	t.Helper()
	c.Cmd = exec.Command(name, append(args, "-kubeconfig", c.kubeconfig)...)
	c.Env = append(os.Environ(), commandVariable+"=true", "TMPDIR="+c.folder)
	c.Stderr = &c.stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	process := c.Process
	t.Cleanup(func() { _ = process.Kill() }) // has ended if nothing failed
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "API server at") {
			return // the rest fits into the pipe
		}
	}
	t.Fatalf("the command does not answer: %v\n%s", c.Wait(), &c.stderr)
}

// left names what is there of the command.
func (c *command) left(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, folder := range []string{c.folder, filepath.Dir(c.kubeconfig)} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
	}
	return names
}

// answers asks the server.
func (c *command) answers(ctx context.Context, t *testing.T) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestASignalLeavesNothing(t *testing.T) {
	for _, sent := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sent.String(), func(t *testing.T) {
			c := startCommand(t, os.Args[0])
			if len(c.left(t)) != 2 {
				t.Fatalf("it has %q, want a folder and a kubeconfig", c.left(t))
			}
			if err := c.Process.Signal(sent); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &c.stderr)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("it left %q", left)
			}
		})
	}
}

// TestItOutlivesItsTerminalUnderNohup closes the terminal of a command that was started to ignore that.
func TestItOutlivesItsTerminalUnderNohup(t *testing.T) {
	c := startCommand(t, "sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0])
	for range 3 {
		if err := c.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		c.answers(t.Context(), t)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// TestWhatAKilledOneLeftIsRemoved starts a server after another one was killed.
func TestWhatAKilledOneLeftIsRemoved(t *testing.T) {
	c := startCommand(t, os.Args[0])
	t.Setenv("TMPDIR", t.TempDir())
	err := run(t.Context(), []string{"-kubeconfig", c.kubeconfig}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "belongs to a server that runs") {
		t.Fatalf("the kubeconfig of one that lives: %v", err)
	}
	c.answers(t.Context(), t)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // says that it was killed
	if left := c.left(t); len(left) != 2 {
		t.Fatalf("killed, it left %q, want its folder and its kubeconfig", left)
	}
	c.start(t, os.Args[0])
	if left := c.left(t); len(left) != 2 {
		t.Errorf("there is %q, want the second one's folder and kubeconfig", left)
	}
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &c.stderr)
	}
	if left := c.left(t); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}
