// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

const (
	// tarnPackages holds a program for each of the binaries, in a folder of its name.
	tarnPackages = "github.com/tarn-dev/tarn/envtest/cmd/controlplane/"

	// development is the version of a program that was built in a work tree.
	development = "(devel)"

	// tarnMark is in the version that Tarn's kube-apiserver reports.
	tarnMark = "+tarn"

	tarnHint = "in a work tree of Tarn or a module that requires it, run this without a version; elsewhere with one, " +
		"as in go run github.com/tarn-dev/tarn/envtest/cmd/assets@latest -tarn"
)

// tarn is Tarn's own control plane, at the version of this program.
type tarn struct{ version string }

// ownTarn reads the version from this program.
func ownTarn() tarn {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return tarn{development}
	}
	return tarnOf(info.Main.Version)
}

// tarnOf is the control plane of a version, as the go command writes it into programs. A version of changed files has
// no module version.
func tarnOf(version string) tarn {
	if version == "" || strings.HasSuffix(version, "+dirty") {
		version = development
	}
	return tarn{version}
}

// folderName names the folder for one platform.
func (t tarn) folderName(goos, goarch string) string {
	return fmt.Sprintf("tarn-%s-%s-%s", strings.Trim(t.version, "()"), goos, goarch)
}

// moves says whether the same version may be another program tomorrow.
func (t tarn) moves() bool { return t.version == development }

// fill builds the control plane into folder, also if there is one of a version that moves.
func (t tarn) fill(ctx context.Context, folder folder, stderr io.Writer) error {
	p := newProgress(stderr)
	unlock, err := folder.lock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	if folder.finished() && !t.moves() {
		return nil
	}
	return folder.publish(func(work string) (string, error) { return t.build(ctx, p, work) })
}

// build builds a program for each of the binaries below work, and returns the folder that holds them alone.
func (t tarn) build(ctx context.Context, p *progress, work string) (string, error) {
	bin := filepath.Join(work, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return "", err
	}
	// They are compiled as the user's tests are, so that what they share is in the build cache.
	env := []string{"CGO_ENABLED=" + os.Getenv("CGO_ENABLED")}
	dir, args, version := work, []string{"install", "-v", "-ldflags=-s -w"}, "@"+t.version
	if t.moves() { // what is in the work tree, or the version that the module around requires
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", err
		}
		args, version = []string{"build", "-v", "-ldflags=-s -w", "-o", bin + string(filepath.Separator)}, ""
	}
	for _, name := range binaries {
		args = append(args, tarnPackages+name+version)
	}
	g, err := findGo(dir, append(env, "GOBIN="+bin))
	if err != nil {
		return "", err
	}
	err = p.stage("compiling Tarn's control plane "+t.version, "packages", func(a *activity) error {
		return g.run(ctx, io.Discard, a, tarnHint, args...)
	})
	if err != nil {
		return "", err
	}
	return bin, checkTarn(ctx, filepath.Join(bin, "kube-apiserver"+exeSuffix()))
}

// checkTarn makes sure that the kube-apiserver runs.
func checkTarn(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("run the new program: %w\n%s", err, out)
	}
	if !strings.Contains(string(out), tarnMark) {
		return fmt.Errorf("the new program is not Tarn's: it says %q", out)
	}
	return nil
}

// exeSuffix is what names of programs end in.
func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
