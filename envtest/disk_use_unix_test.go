// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package envtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/envtest"
)

// TestAnEnvironmentTakesTheDiskThatItNeeds counts what is allocated, which can be more than the files' sizes.
func TestAnEnvironmentTakesTheDiskThatItNeeds(t *testing.T) {
	if os.Getenv(oracleVariable) != "" {
		t.Skip("about the environment: there is none with " + oracleVariable)
	}
	const bound, blockBytes = 8 << 20, 512
	g, folder := NewWithT(t), t.TempDir()
	envtest.StartWith(t, envtest.Options{DataDirectory: folder})
	var taken int64
	g.Expect(filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			taken += int64(info.Sys().(*syscall.Stat_t).Blocks) * blockBytes
		}
		return err
	})).To(Succeed())
	g.Expect(taken).To(And(BeNumerically(">", 0), BeNumerically("<", bound)))
	t.Logf("%d bytes", taken)
}
