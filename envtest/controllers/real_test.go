// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
)

// realVariable names a kube-controller-manager, as envtest/cmd/assets -controller-manager builds it. The specs then run on its
// controllers.
const realVariable = "TARN_REAL_CONTROLLER_MANAGER"

func isReal() bool { return os.Getenv(realVariable) != "" }

// startReal starts the real kube-controller-manager with controllers of these names, until the test ends.
func startReal(t testing.TB, of *envtest.Environment, names []string) {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig, err := of.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	manager := exec.CommandContext(ctx, os.Getenv(realVariable),
		"--kubeconfig="+write("kubeconfig", kubeconfig),
		"--service-account-private-key-file="+write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"--root-ca-file="+write("ca.pem", of.Config().CAData),
		"--controllers="+strings.Join(names, ","),
		"--use-service-account-credentials=false", "--leader-elect=false", "--authentication-skip-lookup=true",
		"--bind-address=127.0.0.1", "--secure-port=0", "--cert-dir="+folder,
	)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	manager.Stdout, manager.Stderr = log, log
	manager.Cancel = func() error { return manager.Process.Signal(syscall.SIGTERM) }
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = manager.Wait()
		if t.Failed() {
			tail(t, log.Name())
		}
		_ = log.Close()
	})
}

// tail logs the end of a file.
func tail(t testing.TB, path string) {
	data, _ := os.ReadFile(path)
	lines := strings.Split(string(data), "\n")
	t.Log(strings.Join(lines[max(0, len(lines)-40):], "\n"))
}

// stillThere is the error for an object that should have gone.
func stillThere(obj client.Object) error {
	return fmt.Errorf("%s %s is still there: deleted at %v, finalizers %q, owners %v",
		obj.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(obj), obj.GetDeletionTimestamp(), obj.GetFinalizers(), obj.GetOwnerReferences())
}
