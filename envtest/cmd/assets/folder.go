// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// The programs that a folder can have, by the names under which test environments look for them.
var (
	// binaries are in every control plane.
	binaries = []string{"kube-apiserver", "etcd"}
	// extras are built when they are asked for. Each is built in a folder of its own, and linked into that of the binaries.
	extras = []string{"kubectl", "kube-controller-manager", "kube-scheduler"}
)

// lockRetry is how often a run that waits for another looks again: short for a person, nothing for a machine.
const lockRetry = 500 * time.Millisecond

// folder is the place of programs of one release. It appears under its path only when it is complete; until
// then the work goes on beside it, on the same file system, under the protection of a lock file.
type folder struct {
	path     string   // the finished folder
	work     string   // the unfinished one; whoever holds the lock owns it
	lck      string   // the lock file
	programs []string // what makes it complete
}

func newFolder(root, name string, programs ...string) folder {
	path := filepath.Join(root, name)
	return folder{path: path, work: path + ".building", lck: path + ".lock", programs: programs}
}

// finished says whether the folder holds every program that it should.
func (f folder) finished() bool {
	for _, name := range f.programs {
		if !runs(filepath.Join(f.path, name)) {
			return false
		}
	}
	return true
}

// runs says whether there is a program at path.
func runs(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o100 != 0
}

// include links the programs of other, which is finished, into the folder. The caller holds the lock of the folder.
func (f folder) include(other folder) error {
	for _, name := range other.programs {
		if err := link(filepath.Join(other.path, name), filepath.Join(f.path, name)); err != nil {
			return fmt.Errorf("put %s beside the binaries: %w", name, err)
		}
	}
	return nil
}

// link makes to another name of the file from, also if there is a file of that name. A program that starts at the same
// time finds the one or the other.
func link(from, to string) error {
	a, err := os.Stat(from)
	if err != nil {
		return err
	}
	if b, err := os.Stat(to); err == nil && os.SameFile(a, b) {
		return nil
	}
	made := to + ".new"
	if err := removeAll(made); err != nil {
		return err
	}
	if err := os.Link(from, made); err != nil {
		return err
	}
	return os.Rename(made, to)
}

// lock waits until this process alone may work on the folder, or ctx ends. The caller calls unlock once; the
// operating system does so for a process that dies.
func (f folder) lock(ctx context.Context, p *progress) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(f.lck), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for the binaries: %w; name another with -dir", err)
	}
	locked, err := f.tryLock()
	if errors.Is(err, fileutil.ErrLocked) {
		err = p.stage("waiting for another run that builds "+filepath.Base(f.path), "", func(*activity) error {
			locked, err = f.waitForLock(ctx)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.lck, err)
	}
	return func() { _ = locked.Close() }, nil
}

func (f folder) tryLock() (*fileutil.LockedFile, error) {
	return fileutil.TryLockFile(f.lck, os.O_CREATE|os.O_RDWR, 0o600)
}

func (f folder) waitForLock(ctx context.Context) (*fileutil.LockedFile, error) {
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-retry.C:
		}
		locked, err := f.tryLock()
		if !errors.Is(err, fileutil.ErrLocked) {
			return locked, err
		}
	}
}

// publish gives build an empty folder to work in and makes the folder below it that build returns the finished
// one, in one step. The extras that the folder had stay. Whatever else build left is removed, also after an error. The
// caller holds the lock.
func (f folder) publish(build func(work string) (string, error)) (err error) {
	if err := removeAll(f.work); err != nil {
		return fmt.Errorf("remove what an interrupted run left: %w", err)
	}
	if err := os.Mkdir(f.work, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(f.work)) }()
	built, err := build(f.work)
	if err != nil {
		return err
	}
	for _, name := range extras {
		if old := filepath.Join(f.path, name); runs(old) {
			if err := link(old, filepath.Join(built, name)); err != nil {
				return fmt.Errorf("keep %s: %w", name, err)
			}
		}
	}
	if err := removeAll(f.path); err != nil {
		return fmt.Errorf("remove an incomplete folder: %w", err)
	}
	return os.Rename(built, f.path)
}

// removeAll removes path and what is below it; there being nothing is no error.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
