// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

const (
	folderPattern = "tarn-etcd-*"

	// lockName is the file in a folder that its process holds locked as long as it lives. The system unlocks it when the
	// process ends, however it ends, so that no process id is needed to tell whose folder is left.
	lockName = "lock"

	// folderAttempts bounds how often a folder is made anew because another process took it for a dead one. That can
	// happen between the making of a folder and its locking.
	folderAttempts = 5
)

// folderNames are the names that os.MkdirTemp makes of folderPattern.
var folderNames = regexp.MustCompile(`^tarn-etcd-[0-9]+$`)

// folder is the place of one server's files. Nobody but its user can enter it.
type folder struct {
	path string
	lock *fileutil.LockedFile
}

// swept are the parents in which this process has looked for folders of dead processes.
var swept sync.Map

// newFolder makes a folder below parent, or below the system's folder for temporary files if parent is empty. The first
// time it removes the folders there whose processes are dead. The caller has to call remove.
func newFolder(parent string) (*folder, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if _, done := swept.LoadOrStore(parent, true); !done {
		sweep(parent)
	}
	for range folderAttempts {
		path, err := os.MkdirTemp(parent, folderPattern) // makes it 0700
		if err != nil {
			return nil, fmt.Errorf("make a folder for etcd: %w", err)
		}
		f := &folder{path: path}
		if err = f.claim(); err == nil {
			return f, nil
		}
		if err := os.RemoveAll(path); err != nil {
			return nil, fmt.Errorf("remove a folder for etcd: %w", err)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fileutil.ErrLocked) {
			return nil, fmt.Errorf("make a folder for etcd: lock it: %w", err)
		}
	}
	return nil, fmt.Errorf("make a folder for etcd: others remove it from %s as soon as it is made", parent)
}

// claim locks a new folder. Another process may have removed it meanwhile.
func (f *folder) claim() error {
	name := filepath.Join(f.path, lockName)
	lock, err := fileutil.TryLockFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.lock = lock
	held, err := lock.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Stat(name); err == nil && !os.SameFile(held, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		_ = lock.Close()
	}
	return err
}

// remove removes the folder. The lock goes last, so that what is left of the folder, if the process dies now, can be swept.
func (f *folder) remove() error {
	entries, err := os.ReadDir(f.path)
	errs := []error{err}
	for _, entry := range entries {
		if entry.Name() != lockName {
			errs = append(errs, os.RemoveAll(filepath.Join(f.path, entry.Name())))
		}
	}
	errs = append(errs, f.lock.Close(), os.RemoveAll(f.path))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove etcd's folder: %w", err)
	}
	return nil
}

// sweep removes this user's folders in parent whose processes are dead. It leaves what cannot be
// removed.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // making a folder tells why
	}
	for _, entry := range entries {
		if !entry.IsDir() || !folderNames.MatchString(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err != nil || !ours(info) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		lock, err := fileutil.TryLockFile(filepath.Join(path, lockName), os.O_RDWR, 0)
		if err != nil {
			continue // its process lives, or it is none of ours
		}
		_ = (&folder{path: path, lock: lock}).remove()
	}
}
