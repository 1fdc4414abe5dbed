// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/tarn-dev/tarn/envtest/internal/access"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/flags"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/pkg/cacher"
)

// configOf is what a server is made of that stores in a folder, with its keys.
func configOf(t *testing.T, folder string) (Config, *tls.Config) {
	t.Helper()
	listener, err := serving.Listen()
	if err != nil {
		t.Fatal(err)
	}
	users, secured, err := access.Secure(listener.Address())
	if err != nil {
		t.Fatal(err)
	}
	storage, err := etcd.Start(folder)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Etcd: storage, Listener: listener, Users: users, Plugins: &flags.Plugins{}, Modes: []string{flags.ModeRBAC},
		Webhooks: webhook.NewDefaultServiceResolver(),
		WatchCache: func(_ schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
			return cacher.StorageWithCacher(store, cacher.Options{})
		},
	}, secured
}
