// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig writes a kubeconfig for a server that this process runs.
package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// mark is the first line of a file that Publish wrote.
const mark = "# Tarn removes this file when the server ends.\n"

// attempts bounds how often a left file is removed and another process makes it anew meanwhile.
const attempts = 5

// Publish writes a kubeconfig to a new file at path, which its owner alone can read, in one step: whoever waits for the
// file never sees a part of it. It replaces no file but one that Publish wrote for a process that is dead. The file is
// locked until remove is called, or the process ends, however it does: so no process id is needed to know that it is left.
func Publish(path string, content []byte) (remove func() error, err error) {
	unfinished, err := write(path, content)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(unfinished)) }()
	lock, err := fileutil.TryLockFile(unfinished, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("lock the kubeconfig: %w", err)
	}
	for range attempts {
		if err = os.Link(unfinished, path); err == nil {
			return func() error { return errors.Join(os.Remove(path), lock.Close()) }, nil
		}
		if errors.Is(err, fs.ErrExist) {
			err = removeLeft(path)
		}
		if err != nil {
			break
		}
	}
	return nil, errors.Join(fmt.Errorf("write the kubeconfig: %w", err), lock.Close())
}

// write writes a file beside path, and returns its name.
func write(path string, content []byte) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = file.Write(append([]byte(mark), content...))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// removeLeft removes the file at path if a dead process left it. It returns an error if the file has to stay.
func removeLeft(path string) error {
	stays := fmt.Errorf("%s exists: remove it or name another file with -kubeconfig", path)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return stays
	}
	lock, err := fileutil.TryLockFile(path, os.O_RDWR, 0)
	if errors.Is(err, fileutil.ErrLocked) {
		return fmt.Errorf("%s belongs to a server that runs: stop it or name another file with -kubeconfig", path)
	}
	if err != nil {
		return stays
	}
	defer lock.Close()
	begin := make([]byte, len(mark))
	if _, err := io.ReadFull(lock, begin); err != nil || !bytes.Equal(begin, []byte(mark)) {
		return stays
	}
	held, err := lock.Stat()
	if err != nil {
		return stays
	}
	if there, err := os.Lstat(path); err != nil || !os.SameFile(held, there) {
		return nil // another process was quicker
	}
	return os.Remove(path)
}
