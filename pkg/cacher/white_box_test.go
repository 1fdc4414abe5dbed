// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// idle returns the parts of a Cacher without its goroutines: the test does what they would.
func idle(t *testing.T, options ...func(*Config)) *Cacher {
	t.Helper()
	config := Config{
		Storage:        struct{ storage.Interface }{},
		ResourcePrefix: "/pods/",
		KeyFunc:        func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		GetAttrsFunc: func(runtime.Object) (labels.Set, fields.Set, error) {
			return nil, nil, nil
		},
		NewFunc:     func() runtime.Object { return &example.Pod{} },
		NewListFunc: func() runtime.Object { return &example.PodList{} },
	}
	for _, o := range options {
		o(&config)
	}
	config, err := config.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c, err := assemble(config, t.Context().Done())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.reflectorStore.Replace(nil, "100"); err != nil {
		t.Fatal(err)
	}
	return c
}

// listed remembers how it was asked for a list.
type listed struct {
	storage.Interface
	opts storage.ListOptions
}

func (l *listed) GetList(_ context.Context, _ string, opts storage.ListOptions, _ runtime.Object) error {
	l.opts = opts
	return nil
}

// TestListsOfReflectors are the newest, but those by which a Reflector's watch is checked.
func TestListsOfReflectors(t *testing.T) {
	g, below := NewWithT(t), &listed{}
	l := &listerWatcher{storage: below, prefix: "/pods/", newList: func() runtime.Object { return &example.PodList{} }, rewatch: func() error { return nil }}
	_, err := l.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 7})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(below.opts.ResourceVersion).To(BeEmpty())
	g.Expect(below.opts.Predicate.Limit).To(BeEquivalentTo(7))
	_, err = l.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "5", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(below.opts.ResourceVersion).To(Equal("5"))
	g.Expect(below.opts.ResourceVersionMatch).To(Equal(metav1.ResourceVersionMatchExact))
}
