// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest"
)

// late is a store whose watches tell of a new object some time after it was created.
type late struct {
	storage.Interface
	by time.Duration
}

// Watch implements storage.Interface.
func (l late) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := l.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer w.Stop()
		for event := range w.ResultChan() {
			if event.Type == watch.Added {
				select {
				case <-time.After(l.by):
				case <-proxy.StopChan():
				}
			}
			select {
			case events <- event:
			case <-proxy.StopChan():
				return
			}
		}
	}()
	return proxy, nil
}

var _ = Describe("what a server makes at its start", func() {
	It("is in force when Start returns: every user may ask what is served", func() {
		onlyOurs()
		bindings := schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}
		env := envtest.StartWith(GinkgoTB(), envtest.Options{
			StorageDecorator: decorated(envtest.Undecorated, func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
				store, destroy, err := m.make(m.keyFunc)
				if m.resource == bindings {
					store = late{store, 100 * time.Millisecond}
				}
				return store, destroy, err
			}),
		})
		jane, err := env.AddUser("jane")
		Expect(err).NotTo(HaveOccurred())
		_, err = kubernetes.NewForConfigOrDie(jane).Discovery().ServerGroups()
		Expect(err).NotTo(HaveOccurred())
	})
})
