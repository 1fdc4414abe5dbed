// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"os"
	"syscall"
)

// fallocKeepSize is FALLOC_FL_KEEP_SIZE: the file's size stays what it is.
const fallocKeepSize = 1

// allocate reserves n bytes of a file from offset on. File systems that cannot do that are taken as they are.
func allocate(file *os.File, offset, n int64) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			failed = syscall.Fallocate(int(fd), fallocKeepSize, offset, n)
			if !errors.Is(failed, syscall.EINTR) {
				return
			}
		}
	})
	if errors.Is(failed, syscall.ENOTSUP) || errors.Is(failed, syscall.ENOSYS) {
		failed = nil
	}
	return errors.Join(err, failed)
}
