// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
)

const content = "apiVersion: v1\nkind: Config\ncurrent-context: tarn\n"

func TestPublish(t *testing.T) {
	g, folder := NewWithT(t), t.TempDir()
	path := filepath.Join(folder, "kubeconfig")
	remove, err := Publish(path, []byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.LoadFromFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.CurrentContext).To(Equal("tarn"))
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))

	_, err = Publish(path, []byte("other"))
	g.Expect(err).To(MatchError(And(ContainSubstring(path), ContainSubstring("belongs to a server that runs"))))
	g.Expect(os.ReadDir(folder)).To(HaveLen(1), "the second one left something")
	g.Expect(remove()).To(Succeed())
	g.Expect(os.ReadDir(folder)).To(BeEmpty())
}

func TestAFileThatIsLeftIsReplaced(t *testing.T) {
	g, folder := NewWithT(t), t.TempDir()
	path := filepath.Join(folder, "kubeconfig")
	g.Expect(os.WriteFile(path, []byte(mark+"of a process that was killed\n"), 0o600)).To(Succeed())
	remove, err := Publish(path, []byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	data, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data)).To(Equal(mark + content))
	g.Expect(remove()).To(Succeed())
	g.Expect(os.ReadDir(folder)).To(BeEmpty())
}

func TestNoOtherFileIsReplaced(t *testing.T) {
	folder := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"another file":  func(path string) error { return os.WriteFile(path, []byte("mine\n"+mark), 0o600) },
		"an empty file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a folder":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to a left file": func(path string) error {
			left := filepath.Join(t.TempDir(), "left")
			if err := os.WriteFile(left, []byte(mark), 0o600); err != nil {
				return err
			}
			return os.Symlink(left, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, path := NewWithT(t), filepath.Join(folder, strings.ReplaceAll(name, " ", "-"))
			g.Expect(make(path)).To(Succeed())
			before, err := os.Lstat(path)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = Publish(path, []byte(content))
			g.Expect(err).To(MatchError(ContainSubstring(path + " exists: remove it")))
			after, err := os.Lstat(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.SameFile(before, after)).To(BeTrue())
			g.Expect(after.Size()).To(Equal(before.Size()))
		})
	}
	NewWithT(t).Expect(os.ReadDir(folder)).To(HaveLen(4), "something is left")
}

func TestAFolderThatIsMissingIsAnError(t *testing.T) {
	_, err := Publish(filepath.Join(t.TempDir(), "missing", "file"), nil)
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
}
