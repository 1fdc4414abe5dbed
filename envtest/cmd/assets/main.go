// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command assets builds the real kube-apiserver and etcd from the Go module proxy, once, and prints the line
// that tells test environments where they are:
//
//	eval "$(go run ./envtest/cmd/assets)"
//
// sets KUBEBUILDER_ASSETS in the shell. With -tarn it builds Tarn's own etcd and kube-apiserver instead, of the
// version of this program: suites that start the binaries then run on Tarn, without a change.
// With -kubectl, -controller-manager and -scheduler the real programs of these names are put beside, for suites and
// people that use them. The line stands alone on stdout; progress and errors go to stderr.
// The binaries are kept in the user's cache folder, one folder a release, so that a second run answers at once.
// Everything comes through the go command and its module proxy: no other download site is asked. The checksums of the
// default release are part of this program; for others the checksum database is asked, even if it is switched off.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tarn-dev/tarn/internal/program"
)

// defaultKubernetes is the release that this project is compared with.
const defaultKubernetes = "v1.36.3"

func main() { program.Main("assets", run) }

// run is the command without the process around it: args are the arguments after the program's name. It writes
// to stdout only once the binaries are there.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("assets", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "", "keep the binaries below this `folder` (default: tarn/assets in the user's cache folder)")
	version := flags.String("kubernetes", defaultKubernetes, "build this `release` of Kubernetes, and the etcd that goes with it")
	own := flags.Bool("tarn", false, "build Tarn's own kube-apiserver and etcd, instead of the real ones")
	wanted := map[string]*bool{}
	for _, name := range extras {
		wanted[name] = flags.Bool(strings.TrimPrefix(name, "kube-"), false, "build the real "+name+" too")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are taken, see -h", flags.Arg(0))
	}
	r, err := parseRelease(*version)
	if err != nil {
		return err
	}
	root, err := rootFolder(*dir)
	if err != nil {
		return err
	}
	job := job{root: root, release: r, stderr: stderr}
	place, err := job.controlPlane(ctx, *own)
	if err != nil {
		return err
	}
	for _, name := range extras {
		if *wanted[name] {
			if err := job.beside(ctx, place, name); err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintf(stdout, "export KUBEBUILDER_ASSETS=%s\n", shellQuote(place.path))
	return err
}

// job is what one run of the command builds, and where.
type job struct {
	root    string // the folder that holds one folder for each release
	release release
	stderr  io.Writer
}

// controlPlane returns the folder with kube-apiserver and etcd, Tarn's own ones or the real ones, and builds them unless
// they are there.
func (j job) controlPlane(ctx context.Context, own bool) (folder, error) {
	if !own {
		place := newFolder(j.root, j.release.folderName("kubernetes", runtime.GOOS, runtime.GOARCH), binaries...)
		return place, j.fill(ctx, place)
	}
	t := ownTarn()
	place := newFolder(j.root, t.folderName(runtime.GOOS, runtime.GOARCH), binaries...)
	if !t.moves() && place.finished() {
		return place, nil
	}
	return place, t.fill(ctx, place, j.stderr)
}

// beside puts the program of that name into place, and builds it unless it is there. A program that is in place and came
// from elsewhere is replaced: it may be of another release.
func (j job) beside(ctx context.Context, place folder, name string) error {
	program := newFolder(j.root, j.release.folderName(name, runtime.GOOS, runtime.GOARCH), name)
	if err := j.fill(ctx, program); err != nil {
		return err
	}
	unlock, err := place.lock(ctx, newProgress(j.stderr))
	if err != nil {
		return err
	}
	defer unlock()
	return place.include(program)
}

// fill builds the programs of the folder, unless they are there. When another process is at it already, it waits for that
// one and uses its result.
func (j job) fill(ctx context.Context, folder folder) error {
	if folder.finished() {
		return nil
	}
	p := newProgress(j.stderr)
	unlock, err := folder.lock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	if folder.finished() {
		return nil
	}
	p.printf("building %s of Kubernetes %s into %s, once; this takes some minutes",
		strings.Join(folder.programs, " and "), j.release.kubernetes, folder.path)
	return folder.publish(func(work string) (string, error) { return build(ctx, p, j.release, folder.programs, work) })
}

// rootFolder is the absolute path of the folder that holds one folder a release: dir, or the default for "".
func rootFolder(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w; name a folder with -dir", err)
	}
	return filepath.Join(cache, "tarn", "assets"), nil
}

// shellQuote is s as one word of a POSIX shell.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
