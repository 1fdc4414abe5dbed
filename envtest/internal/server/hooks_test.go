// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// TestStopGoesOnWhenAHookHangs lets a hook of the server ignore that it is cancelled: everything else has to end.
func TestStopGoesOnWhenAHookHangs(t *testing.T) {
	g, before, folder := NewWithT(t), goleak.IgnoreCurrent(), t.TempDir()
	c, secured := configOf(t, folder)
	s, err := New(c)
	g.Expect(err).NotTo(HaveOccurred())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	hang := func(genericapiserver.PostStartHookContext) error {
		cancel()
		<-release
		return nil
	}
	g.Expect(s.crds.GenericAPIServer.AddPostStartHook("hangs", hang)).To(Succeed())
	s.hooks.patience = time.Millisecond
	g.Expect(s.start(ctx, secured)).To(MatchError(context.Canceled))
	g.Expect(s.Stop(0)).To(MatchError(ContainSubstring("poststarthook/hangs")))
	g.Expect(c.Etcd.Stop()).To(Succeed())

	g.Expect(s.run.Err()).To(HaveOccurred())
	_, err = net.Dial("tcp", c.Listener.Address())
	g.Expect(err).To(HaveOccurred())
	g.Expect(os.ReadDir(folder)).To(BeEmpty())
	close(release)
	g.Expect(goleak.Find(before)).To(Succeed())
}
