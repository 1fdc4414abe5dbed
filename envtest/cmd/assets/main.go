// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Command assets builds the real kube-apiserver and etcd from the Go module proxy, once, and prints the line
// that tells test environments where they are:
//
//	eval "$(go run ./envtest/cmd/assets)"
//
// sets KUBEBUILDER_ASSETS in the shell. With -tarn it builds Tarn's own etcd and kube-apiserver instead, one program under
// both names, of the version of this program: suites that start the binaries then run on Tarn, without a change. The line stands alone on stdout; progress and errors go to stderr.
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
	place, build := newFolder(root, r.folderName(runtime.GOOS, runtime.GOARCH)), func(folder folder) error {
		return fill(ctx, folder, r, stderr)
	}
	again := false
	if *own {
		t := ownTarn()
		again = t.moves()
		place, build = newFolder(root, t.folderName(runtime.GOOS, runtime.GOARCH)), func(folder folder) error {
			return t.fill(ctx, folder, stderr)
		}
	}
	if again || !place.finished() {
		if err := build(place); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "export KUBEBUILDER_ASSETS=%s\n", shellQuote(place.path))
	return err
}

// fill builds r into folder. When another process is at it already, it waits for that one and uses its result.
func fill(ctx context.Context, folder folder, r release, stderr io.Writer) error {
	p := newProgress(stderr)
	unlock, err := folder.lock(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	if folder.finished() {
		return nil
	}
	p.printf("building kube-apiserver %s and its etcd into %s, once; this takes some minutes", r.kubernetes, folder.path)
	return folder.publish(func(work string) (string, error) { return build(ctx, p, r, work) })
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
