// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

// TestStopGoesOnWhenAHookHangs lets a hook of the server ignore that it is cancelled: everything else has to end.
func TestStopGoesOnWhenAHookHangs(t *testing.T) {
	g, before, folder := NewWithT(t), goleak.IgnoreCurrent(), t.TempDir()
	var r running
	var err error
	r.serving, err = listen()
	g.Expect(err).NotTo(HaveOccurred())
	secured, err := r.secure()
	g.Expect(err).NotTo(HaveOccurred())
	r.etcd, err = etcd.Start(folder)
	g.Expect(err).NotTo(HaveOccurred())
	r.server, err = newServer(Options{}, r.etcd, r.serving, r.access)
	g.Expect(err).NotTo(HaveOccurred())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	hang := func(genericapiserver.PostStartHookContext) error {
		cancel()
		<-release
		return nil
	}
	g.Expect(r.server.crds.GenericAPIServer.AddPostStartHook("hangs", hang)).To(Succeed())
	r.server.hooks.patience = time.Millisecond
	g.Expect(r.server.start(ctx, secured)).To(MatchError(context.Canceled))
	g.Expect(r.stop(0)).To(MatchError(ContainSubstring("poststarthook/hangs")))

	g.Expect(r.server.run.Err()).To(HaveOccurred())
	_, err = net.Dial("tcp", r.serving.address())
	g.Expect(err).To(HaveOccurred())
	g.Expect(os.ReadDir(folder)).To(BeEmpty())
	close(release)
	g.Expect(goleak.Find(before)).To(Succeed())
}
