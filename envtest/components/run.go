// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package components

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// run runs the program until ctx ends or it ends by itself. Its files are in a folder that only the user may read, and that
// goes when run returns.
func (p *program) run(ctx context.Context, path string, config *rest.Config) (err error) {
	folder, err := os.MkdirTemp("", "tarn-"+p.name+"-")
	if err != nil {
		return fmt.Errorf("make a folder for the files of %s: %w", p.name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	args, err := p.arguments(folder, config)
	if err != nil {
		return fmt.Errorf("write the files of %s: %w", p.name, err)
	}
	output := &tail{to: p.opts.Log}
	child := exec.CommandContext(ctx, path, args...)
	child.Stdout, child.Stderr = output, output // one writer, so that one goroutine writes
	child.WaitDelay = p.grace
	tieToParent(child)
	// The thread that starts a child must outlive it: on Linux, the child is ended with that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := child.Start(); err != nil {
		if ctx.Err() != nil {
			return nil // it was told to end before it began
		}
		return fmt.Errorf("start %s: %w", path, err)
	}
	return p.outcome(ctx, child, child.Wait(), output)
}

// outcome is the error for a program that has ended.
func (p *program) outcome(ctx context.Context, child *exec.Cmd, err error, output *tail) error {
	switch {
	case ctx.Err() != nil && killed(child.ProcessState):
		return fmt.Errorf("%s had not ended %v after SIGTERM, and was killed; it wrote last:\n%s", p.name, p.grace, output)
	case ctx.Err() != nil:
		return nil
	case err == nil:
		return fmt.Errorf("%s exited without an error; it wrote last:\n%s", p.name, output)
	}
	return fmt.Errorf("%s: %w; it wrote last:\n%s", p.name, err, output)
}

// arguments are the flags of the program, whose files it writes into folder.
func (p *program) arguments(folder string, config *rest.Config) ([]string, error) {
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := writeKubeconfig(kubeconfig, config); err != nil {
		return nil, err
	}
	own, err := p.flags(folder, config)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--authentication-skip-lookup=true",
		"--bind-address=127.0.0.1",
		"--secure-port=0",
		"--cert-dir=" + folder,
	}
	return append(append(args, own...), p.opts.Args...), nil
}

// writeKubeconfig writes a kubeconfig with the address and the credentials of config, for its owner only.
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "tarn"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return clientcmd.WriteToFile(*file, path) // with mode 0600
}

// tailSize is how much of what a program wrote is kept for errors, in bytes.
const tailSize = 4 << 10

// tail passes on what a program writes, and keeps the end. A single goroutine writes, and has ended before another
// reads.
type tail struct {
	to   io.Writer // nil discards
	last []byte
}

// Write never fails: what reads the log must not end the program.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p[max(0, len(p)-tailSize):]...)
	t.last = append(t.last[:0], t.last[max(0, len(t.last)-tailSize):]...)
	if t.to != nil {
		_, _ = t.to.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	if len(t.last) == 0 {
		return "(nothing)"
	}
	return string(t.last)
}
