// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// loopback are the clients with which the server asks itself.
type loopback struct {
	config    *rest.Config
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	informers informers.SharedInformerFactory
}

// newLoopback makes the clients from a configuration of the server's own user, which it keeps.
func newLoopback(config *rest.Config) (*loopback, error) {
	kube, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return nil, fmt.Errorf("create the server's client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create the server's dynamic client: %w", err)
	}
	return &loopback{config: config, kube: kube, dynamic: dyn, informers: informers.NewSharedInformerFactory(kube, 0)}, nil
}

// protobuf returns a copy of config for typed clients.
func protobuf(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.ContentType = runtime.ContentTypeProtobuf
	return c
}
