// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package etcd

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// childVariable is set in the process that a test started from itself.
const childVariable = "TARN_TEST_CHILD"

// TestADiskThatFails lets the database's file be limited, which is found out when it is written and not when space is
// reserved: so does a disk that is broken.
func TestADiskThatFails(t *testing.T) {
	if os.Getenv(childVariable) == "" { // the limit is one of the whole process
		child := exec.Command(os.Args[0], "-test.run=^TestADiskThatFails$", "-test.v")
		child.Env = append(os.Environ(), childVariable+"=true")
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestADiskThatFails") {
			t.Errorf("the process with the limit: %v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	const limit, valueBytes = 16 << 20, 500 << 10
	g, before, parent := NewWithT(t), goleak.IgnoreCurrent(), t.TempDir()
	signal.Ignore(syscall.SIGXFSZ)
	g.Expect(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit})).To(Succeed())
	s, err := Start(parent)
	g.Expect(err).NotTo(HaveOccurred())
	client := s.Client()
	watch := client.Watch(t.Context(), "other")
	for written := 0; err == nil; written += valueBytes {
		g.Expect(written).To(BeNumerically("<", 4*limit), "the disk never fails")
		_, err = client.KV.Txn(t.Context()).Then(clientv3.OpPut("key", strings.Repeat("x", valueBytes))).Commit()
	}
	g.Expect(err).To(MatchError(syscall.EFBIG))
	if s.Failed() == nil {
		t.Skip("this file system asks for the limit when space is reserved")
	}
	g.Expect(err).To(MatchError(ContainSubstring("etcd has failed: failed to commit tx")))
	_, err = client.KV.Get(t.Context(), "key")
	g.Expect(err).To(MatchError(syscall.EFBIG))
	response := <-watch
	g.Expect(response.Err()).To(MatchError(ContainSubstring("etcd has failed")))
	CloseClient(client)
	g.Expect(s.Stop()).To(MatchError(syscall.EFBIG))
	g.Expect(os.ReadDir(parent)).To(BeEmpty())
	g.Expect(goleak.Find(before)).To(Succeed())
}

// TestAPanicOfEtcdIsNoEndOfTheProcess breaks off where etcd would end it.
func TestAPanicOfEtcdIsNoEndOfTheProcess(t *testing.T) {
	g := NewWithT(t)
	f := newFailure()
	call := func(do func()) (err error) {
		defer f.rescue(&err)
		do()
		return nil
	}
	cause := errors.New("cause")
	g.Expect(call(func() {})).To(Succeed())
	g.Expect(call(func() { f.log.Fatal("message", zap.Error(cause)) })).To(MatchError(cause))
	g.Expect(call(func() { f.log.Panic("other") })).To(MatchError("etcd has failed: other"))
	g.Expect(call(func() { f.log.Fatal("failed to commit tx") })).To(Succeed(), "the caller goes on")
	g.Expect(f.get()).To(MatchError("etcd has failed: message: cause"), "the first one counts")
	g.Expect(func() { _ = call(func() { panic("mistake") }) }).To(PanicWith("mistake"))
}
