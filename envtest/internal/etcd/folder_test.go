// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// leftFolder makes what a process leaves that was killed.
func leftFolder(t *testing.T, parent string) string {
	t.Helper()
	f, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.path, databaseName), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.lock.Close(); err != nil {
		t.Fatal(err)
	}
	return f.path
}

func TestFoldersOfDeadProcessesAreSwept(t *testing.T) {
	g, parent := NewWithT(t), t.TempDir()
	swept.Store(parent, true) // not before all of them are there
	dead := leftFolder(t, parent)
	living, err := newFolder(parent)
	g.Expect(err).NotTo(HaveOccurred())
	info, err := os.Stat(living.path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o700))

	// Other folders with like names.
	kept := []string{living.path}
	for _, name := range []string{"tarn-etcd-backup", "other", "tarn-etcd-", "tarn-etcd-12x"} {
		path := filepath.Join(parent, name)
		g.Expect(os.Mkdir(path, 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(path, lockName), nil, 0o600)).To(Succeed())
		kept = append(kept, path)
	}
	unlocked := filepath.Join(parent, "tarn-etcd-1") // a folder that its process has not locked yet
	g.Expect(os.Mkdir(unlocked, 0o700)).To(Succeed())
	file := filepath.Join(parent, "tarn-etcd-2")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	outside := leftFolder(t, t.TempDir())
	link := filepath.Join(parent, "tarn-etcd-3")
	g.Expect(os.Symlink(outside, link)).To(Succeed())
	kept = append(kept, unlocked, file, link, outside)
	if stranger := filepath.Join(parent, "tarn-etcd-4"); os.Geteuid() == 0 {
		g.Expect(os.Rename(leftFolder(t, parent), stranger)).To(Succeed())
		g.Expect(os.Chown(stranger, 12345, 12345)).To(Succeed())
		kept = append(kept, stranger)
	}

	sweep(parent)
	g.Expect(dead).NotTo(BeAnExistingFile())
	for _, path := range kept {
		_, err := os.Lstat(path)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(filepath.Join(outside, databaseName)).To(BeAnExistingFile())
	g.Expect(living.remove()).To(Succeed())
	g.Expect(living.path).NotTo(BeAnExistingFile())
}

func TestTheFirstFolderOfAProcessSweeps(t *testing.T) {
	g, parent := NewWithT(t), t.TempDir()
	swept.Store(parent, true)
	dead := leftFolder(t, parent)
	swept.Delete(parent)
	f, err := newFolder(parent)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(dead).NotTo(BeAnExistingFile())
	g.Expect(f.remove()).To(Succeed())
}

// TestAFolderThatWasSweptIsNotClaimed is about another process that takes a folder for a dead one before it is locked.
func TestAFolderThatWasSweptIsNotClaimed(t *testing.T) {
	g, path := NewWithT(t), filepath.Join(t.TempDir(), "tarn-etcd-1")
	f := &folder{path: path}
	g.Expect(errors.Is(f.claim(), fs.ErrNotExist)).To(BeTrue(), "it is gone")
	g.Expect(os.Mkdir(path, 0o700)).To(Succeed())
	lock, err := fileutil.TryLockFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.claim()).To(MatchError(fileutil.ErrLocked), "it is being removed")
	g.Expect(lock.Close()).To(Succeed())
	g.Expect(f.claim()).To(Succeed())
	g.Expect(f.remove()).To(Succeed())
}

func TestAParentThatIsMissingIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Start(missing)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(missing)))
}
