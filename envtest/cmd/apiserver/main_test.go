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
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// whenPrinted calls do at the first write, which is the command's word that the server answers.
type whenPrinted struct {
	bytes.Buffer
	do func()
}

// Write implements io.Writer.
func (w *whenPrinted) Write(p []byte) (int, error) {
	defer w.do()
	return w.Buffer.Write(p)
}

// hasNodes waits until there are nodes of these names.
func hasNodes(ctx context.Context, client kubernetes.Interface, names ...string) error {
	for _, name := range names {
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("there is no node %s: %w", name, err)
		}
	}
	return nil
}

func TestRunServesUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	file := filepath.Join(t.TempDir(), "kubeconfig")
	out := &whenPrinted{}
	out.do = func() {
		defer interrupt()
		info, err := os.Stat(file)
		if err != nil {
			t.Error(err)
			return
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("the kubeconfig's mode is %o, want 600", mode)
		}
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Error(err)
			return
		}
		client := kubernetes.NewForConfigOrDie(config)
		if _, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		if err := hasNodes(ctx, client, "node-0", "node-1"); err != nil {
			t.Error(err)
		}
		if _, err := client.Discovery().ServerResourcesForGroupVersion("tarn.example.com/v1"); err != nil {
			t.Errorf("the CRD of -crds is not served: %v", err)
		}
	}
	if err := run(ctx, []string{"-kubeconfig", file, "-crds", "../../testdata/crds", "-controllers", "*", "-nodes", "2"}, out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KUBECONFIG=" + file, "USE_EXISTING_CLUSTER=true", "TARN_ORACLE_KUBECONFIG="} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
}

func TestRunRefusesArguments(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	existing := filepath.Join(t.TempDir(), "existing")
	if err := os.WriteFile(existing, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"-kubeconfig is missing":   nil,
		"-etcd-servers is missing": {"-kubeconfig", "x", "-etcd-prefix", "/mine"},
		`Etcd.Servers[1] is "no"`:  {"-kubeconfig", "x", "-etcd-servers", "http://127.0.0.1:1,no"},
		"unexpected argument":      {"-kubeconfig", "x", "more"},
		"exists: remove it":        {"-kubeconfig", existing},
		"flag provided but not":    {"-unknown"},
		"CRDDirectoryPaths[0]":     {"-kubeconfig", "x", "-crds", "missing"},
		"no watch cache":           {"-kubeconfig", "x", "-watch-cache", "mine"},
		"there is no controller":   {"-kubeconfig", "x", "-controllers", "*,-unknown"},
		"not the name of a contr":  {"-kubeconfig", "x", "-controller-manager", "job-controller,a b"},
		"nodes.Options.Count: -1":  {"-kubeconfig", "x", "-nodes", "-1"},
		"there is no kube-schedu":  {"-kubeconfig", "x", "-controllers", "*", "-scheduler"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", args, err, want)
		}
	}
	if data, err := os.ReadFile(existing); err != nil || string(data) != "mine" {
		t.Errorf("a file that existed was touched: %q, %v", data, err)
	}
}

func TestSchedulerCanBeLeftOut(t *testing.T) {
	for value, want := range map[string]int{"false": 0, "true": 1} {
		parsed, err := parse([]string{"-kubeconfig", "x", "-scheduler=" + value}, io.Discard)
		if err != nil || len(parsed.beside) != want || parsed.scheduler != (want == 1) {
			t.Errorf("-scheduler=%s runs %d beside the server, want %d; the error is %v", value, len(parsed.beside), want, err)
		}
	}
}
