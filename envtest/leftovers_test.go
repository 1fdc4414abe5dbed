// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

// TestNothingIsLeftBehind looks for goroutines and files of environments that have ended. It is no part of the suite:
// the environment that runs there starts goroutines of its own whenever it likes.
func TestNothingIsLeftBehind(t *testing.T) {
	if os.Getenv(oracleVariable) != "" {
		t.Skip("about the environment: there is none with " + oracleVariable)
	}
	for name, run := range map[string]func(context.Context, *WithT, string){
		"after a watch": leaveAWatch,
		"of a definition that was changed right before":      leaveAChangedDefinition,
		"of a reset that was stopped":                        stopTheReset,
		"of a start that was cancelled":                      cancelTheStart,
		"of a start that was cancelled between its steps":    cancelTheStartAt("pods"),
		"of a start that was stopped":                        stopTheStart,
		"of a start that failed at a definition":             failAtADefinition,
		"of a start that failed at the store of Pods":        failAtAStore("pods"),
		"of a start that failed at the store of leases":      failAtAStore("leases"),
		"of a start that failed at the store of definitions": failAtAStore("customresourcedefinitions"),
	} {
		t.Run(name, func(t *testing.T) {
			g, before, folder := NewWithT(t), goleak.IgnoreCurrent(), t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			run(ctx, g, folder)
			g.Expect(os.ReadDir(folder)).To(BeEmpty())
			g.Expect(goleak.Find(before)).To(Succeed())
		})
	}
}

func leaveAWatch(ctx context.Context, g *WithT, folder string) {
	env := envtest.New(envtest.Options{DataDirectory: folder, CRDDirectoryPaths: []string{"testdata/crds"}})
	g.Expect(env.Start(ctx)).To(Succeed())
	g.Expect(os.ReadDir(folder)).NotTo(BeEmpty())
	config := env.Config()
	w, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var event watch.Event
	g.Eventually(w.ResultChan()).WithContext(ctx).Should(Receive(&event))
	g.Expect(event.Type).To(Equal(watch.Added))

	g.Expect(env.Stop()).To(Succeed())
	for range w.ResultChan() { // is closed because the connection is
	}
	w.Stop()
	_, err = net.Dial("tcp", strings.TrimPrefix(config.Host, "https://"))
	g.Expect(err).To(HaveOccurred())
}

func leaveAChangedDefinition(ctx context.Context, g *WithT, folder string) {
	crd := widgetCRD("changed.example.com")
	var made, destroyed atomic.Int32
	env := envtest.New(envtest.Options{
		DataDirectory:    folder,
		CRDs:             []*apiextensionsv1.CustomResourceDefinition{crd},
		StorageDecorator: counting(&made, &destroyed),
	})
	g.Expect(env.Start(ctx)).To(Succeed())
	widgets := dynamic.NewForConfigOrDie(env.Config()).
		Resource(schema.GroupVersionResource{Group: "changed.example.com", Version: "v1", Resource: "widgets"})
	_, err := widgets.List(ctx, metav1.ListOptions{}) // makes the store
	g.Expect(err).NotTo(HaveOccurred())
	crd.Spec.Names.ShortNames = nil
	built := made.Load()
	g.Expect(env.InstallCRDs(ctx, crd)).To(Succeed())
	g.Expect(made.Load()).To(BeNumerically(">", built), "the changed definition has a store of its own")
	g.Expect(env.Stop()).To(Succeed())
	g.Expect(destroyed.Load()).To(Equal(made.Load()))
}

func cancelTheStart(ctx context.Context, g *WithT, folder string) {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	g.Expect(envtest.New(envtest.Options{DataDirectory: folder}).Start(cancelled)).To(MatchError(context.Canceled))
}

// cancelTheStartAt cancels when the store of a resource is made. Nothing waits then, and what is made next has to be ended.
func cancelTheStartAt(resource string) func(context.Context, *WithT, string) {
	return func(ctx context.Context, g *WithT, folder string) {
		cancelled, cancel := context.WithCancel(ctx)
		defer cancel()
		decorator := decorated(defaultDecorator(), func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
			if m.resource.Resource == resource {
				cancel()
			}
			return m.make(m.keyFunc)
		})
		env := envtest.New(envtest.Options{DataDirectory: folder, StorageDecorator: decorator})
		g.Expect(env.Start(cancelled)).To(MatchError(context.Canceled))
	}
}

func stopTheStart(ctx context.Context, g *WithT, folder string) {
	waits, started := make(chan struct{}), make(chan error, 1)
	env := envtest.New(envtest.Options{
		DataDirectory:    folder,
		CRDs:             []*apiextensionsv1.CustomResourceDefinition{widgetCRD("never.example.com")},
		StorageDecorator: neverEstablished(sync.OnceFunc(func() { close(waits) })),
	})
	go func() { started <- env.Start(ctx) }()
	g.Eventually(waits).WithContext(ctx).Should(BeClosed())
	g.Expect(env.Stop()).To(Succeed())
	g.Eventually(started).WithContext(ctx).Should(Receive(MatchError(envtest.ErrStopped)))
}

func stopTheReset(ctx context.Context, g *WithT, folder string) {
	env := envtest.New(envtest.Options{DataDirectory: folder, CRDDirectoryPaths: []string{"testdata/crds"}})
	g.Expect(env.Start(ctx)).To(Succeed())
	empty, err := env.Snapshot(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	maps := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().ConfigMaps("default")
	for i := range 50 {
		_, err := maps.Create(ctx, configMap(fmt.Sprint("cm-", i), "value"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	full, err := env.Snapshot(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	first, ended := make(chan struct{}), make(chan error, 1)
	begun := sync.OnceFunc(func() { close(first) })
	go func() {
		var err error
		for err == nil {
			if err = env.Restore(ctx, full); err == nil {
				err = env.Restore(ctx, empty)
			}
			begun()
		}
		ended <- err
	}()
	g.Eventually(first).WithContext(ctx).Should(BeClosed())
	g.Expect(env.Stop()).To(Succeed())
	g.Expect(<-ended).To(MatchError(envtest.ErrNotRunning))
}

func failAtADefinition(ctx context.Context, g *WithT, folder string) {
	bad := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
	env := envtest.New(envtest.Options{DataDirectory: folder, CRDs: []*apiextensionsv1.CustomResourceDefinition{bad}})
	g.Expect(env.Start(ctx)).To(MatchError(ContainSubstring("install CRD bad")))
}

func failAtAStore(resource string) func(context.Context, *WithT, string) {
	return func(ctx context.Context, g *WithT, folder string) {
		env := envtest.New(envtest.Options{DataDirectory: folder, StorageDecorator: failingFor(resource)})
		g.Expect(env.Start(ctx)).To(MatchError(ContainSubstring("no store for " + resource)))
	}
}
