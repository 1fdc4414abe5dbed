// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// whenReady calls do at the first write, which is the command's word that the server answers.
type whenReady struct {
	bytes.Buffer
	do func()
}

func (w *whenReady) Write(b []byte) (int, error) {
	w.do()
	return w.Buffer.Write(b)
}

func TestServesTheRealServerUntilInterrupted(t *testing.T) {
	if os.Getenv(assetsVariable) == "" {
		t.Skip(assetsVariable + " is not set: there are no binaries to run")
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, interrupt := context.WithCancel(t.Context())
	stdout := &whenReady{do: func() {
		defer interrupt()
		if err := askForTheServiceOfTheServer(t.Context(), kubeconfig); err != nil {
			t.Errorf("the server behind the kubeconfig: %v", err)
		}
		if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kubeconfig's mode is %v, %v", info.Mode(), err)
		}
	}}
	if err := run(ctx, []string{"-kubeconfig", kubeconfig}, stdout, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), kubeconfig) {
		t.Errorf("it does not say where the kubeconfig is: %q", stdout)
	}
	if entries, err := os.ReadDir(filepath.Dir(kubeconfig)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func askForTheServiceOfTheServer(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, new(corev1.Service))
}

func TestRefuses(t *testing.T) {
	t.Setenv(assetsVariable, "")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no file":     {nil, "-kubeconfig FILE"},
		"an argument": {[]string{"-kubeconfig", "x", "y"}, "no arguments"},
		"no binaries": {[]string{"-kubeconfig", "x"}, "./envtest/cmd/assets"},
	} {
		err := run(t.Context(), c.args, new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
