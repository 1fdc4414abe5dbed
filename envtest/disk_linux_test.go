// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

// childVariable is set in the process that a test started from itself.
const childVariable = "TARN_TEST_CHILD"

// onDisk runs the rest of a test in a child process that has a file system of so many bytes for itself. The child's test
// gets its path; in the parent there is none, and the test is over.
func onDisk(t *testing.T, bytes int) (path string) {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		path = t.TempDir()
		// Its mounts are not seen outside, and go with the process.
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(path, 0); err != nil {
				t.Errorf("the disk is still in use: %v", err)
			}
		})
		return path
	}
	if os.Getenv(oracleVariable) != "" {
		t.Skip("about the environment: there is none with " + oracleVariable)
	}
	child := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	child.Env = append(os.Environ(), childVariable+"=true")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
		t.Skipf("a process that may mount a disk cannot be started: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("the process with a disk of %d bytes: %v\n%s", bytes, err, out)
	}
	return ""
}

func TestADiskThatIsTooSmallForAStart(t *testing.T) {
	for _, bytes := range []int{4 << 10, 12 << 10, 32 << 10, 512 << 10} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			disk := onDisk(t, bytes)
			if disk == "" {
				return
			}
			g, before := NewWithT(t), goleak.IgnoreCurrent()
			env := envtest.New(envtest.Options{DataDirectory: disk})
			g.Expect(env.Start(t.Context())).To(MatchError(syscall.ENOSPC))
			g.Expect(env.Stop()).To(Succeed())
			g.Expect(os.ReadDir(disk)).To(BeEmpty())
			g.Expect(goleak.Find(before)).To(Succeed())
		})
	}
}

func TestAFullDisk(t *testing.T) {
	const diskBytes, ballastBytes = 48 << 20, 16 << 20
	disk := onDisk(t, diskBytes)
	if disk == "" {
		return
	}
	g, before := NewWithT(t), goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience) // it writes 30 MB
	defer cancel()
	ballast := filepath.Join(disk, "ballast")
	g.Expect(os.WriteFile(ballast, make([]byte, ballastBytes), 0o600)).To(Succeed())
	env := envtest.New(envtest.Options{DataDirectory: disk})
	g.Expect(env.Start(ctx)).To(Succeed())
	configMaps := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().ConfigMaps("default")
	create := func(i int) error {
		cm := configMap(fmt.Sprintf("cm-%d", i), "1")
		cm.Data["big"] = strings.Repeat("x", 500<<10)
		_, err := configMaps.Create(ctx, cm, metav1.CreateOptions{})
		return err
	}
	var made int
	var refused error
	for ; refused == nil; made++ {
		g.Expect(made*500<<10).To(BeNumerically("<", diskBytes), "the disk is never full")
		refused = create(made)
	}
	g.Expect(refused).To(MatchError(And(ContainSubstring("no space left on device"), ContainSubstring(disk))))

	cm, err := configMaps.Get(ctx, "cm-0", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "what is stored can be read")
	g.Expect(cm.Data["key"]).To(Equal("1"))
	_, err = configMaps.Get(ctx, fmt.Sprintf("cm-%d", made), metav1.GetOptions{})
	g.Expect(err).To(HaveOccurred(), "what was refused is not stored")
	g.Expect(os.Remove(ballast)).To(Succeed())
	g.Expect(create(made)).To(Succeed(), "there is space again")
	list, err := configMaps.List(ctx, metav1.ListOptions{Limit: 1})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Items).To(ConsistOf(HaveField("ObjectMeta.Name", "cm-0")))
	g.Expect(list.Items).To(HaveEach(BeAssignableToTypeOf(corev1.ConfigMap{})))

	g.Expect(env.Stop()).To(Succeed())
	g.Expect(os.ReadDir(disk)).To(BeEmpty())
	g.Expect(goleak.Find(before)).To(Succeed())
}
