// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onsi/gomega/gbytes"
)

// fillWith puts empty files of this mode under these names into dir, making it.
func fillWith(t *testing.T, dir string, mode fs.FileMode, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// list names what is in dir.
func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFolderFinished(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		mode  fs.FileMode
		want  bool
	}{
		"complete":       {binaries, 0o700, true},
		"empty":          {nil, 0o700, false},
		"one missing":    {binaries[:1], 0o700, false},
		"not executable": {binaries, 0o600, false},
	} {
		f := newFolder(t.TempDir(), "x", binaries...)
		if f.finished() {
			t.Fatalf("%s: finished before it was there", name)
		}
		fillWith(t, f.path, c.mode, c.names...)
		if got := f.finished(); got != c.want {
			t.Errorf("%s: finished = %v", name, got)
		}
	}
}

func TestPublish(t *testing.T) {
	root := t.TempDir()
	f := newFolder(root, "x", binaries...)
	fillWith(t, f.path, 0o700, "etcd", "kubectl", "left of an incomplete folder")
	fillWith(t, f.work, 0o700, "left of an interrupted run")
	err := f.publish(func(work string) (string, error) {
		if got := list(t, work); len(got) != 0 {
			t.Errorf("the build starts with %q", got)
		}
		fillWith(t, filepath.Join(work, "module"), 0o600, "go.mod")
		bin := filepath.Join(work, "bin")
		fillWith(t, bin, 0o700, binaries...)
		return bin, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, f.path), []string{"etcd", "kube-apiserver", "kubectl"}; !slices.Equal(got, want) {
		t.Errorf("published %q, want %q", got, want)
	}
	if got := list(t, root); !slices.Equal(got, []string{"x"}) {
		t.Errorf("left behind: %q", got)
	}
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
}

func TestPublishNothingOfAFailedBuild(t *testing.T) {
	root := t.TempDir()
	f := newFolder(root, "x", binaries...)
	failure := errors.New("no")
	err := f.publish(func(work string) (string, error) {
		fillWith(t, filepath.Join(work, "bin"), 0o700, binaries[0])
		return "", failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("error = %v, want the build's", err)
	}
	if got := list(t, root); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestLockAdmitsOneAtATime(t *testing.T) {
	f := newFolder(filepath.Join(t.TempDir(), "made", "by lock"), "x")
	synctest.Test(t, func(t *testing.T) {
		out := gbytes.NewBuffer()
		p := newProgress(out)
		unlock, err := f.lock(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() {
			unlock, err := f.lock(t.Context(), p)
			if err == nil {
				unlock()
			}
			second <- err
		}()
		synctest.Wait()
		if !strings.Contains(string(out.Contents()), "waiting for another run that builds x") || len(second) > 0 {
			t.Errorf("the second run does not wait: %q", out.Contents())
		}
		unlock()
		if err := <-second; err != nil {
			t.Errorf("the lock was not handed on: %v", err)
		}
	})
}

func TestWaitForTheLockEndsWithTheContext(t *testing.T) {
	f := newFolder(t.TempDir(), "x", binaries...)
	p := newProgress(new(bytes.Buffer))
	unlock, err := f.lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.lock(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted wait ended with %v", err)
	}
}
