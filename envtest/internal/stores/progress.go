// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"

	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage"
	storagefeature "k8s.io/apiserver/pkg/storage/feature"
)

// LearnProgress tells apiserver's storage about etcd once per process; see progressClient.
func LearnProgress(ctx context.Context) {
	storagefeature.DefaultFeatureSupportChecker.CheckClient(ctx, progressClient{etcdversion.Version}, storage.RequestWatchProgress)
}

// progressClient tells k8s.io/apiserver which etcd it works with. apiserver asks an endpoint for its version to learn
// whether watch progress can be requested, and without an answer its watch cache cannot serve consistent reads; an
// in-process client has no endpoints to ask.
type progressClient struct{ version string }

// Endpoints returns the name under which apiserver remembers the answer.
func (progressClient) Endpoints() []string { return []string{"tarn-in-process"} }

// Status returns the version of the etcd that is linked into this process.
func (c progressClient) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	return &clientv3.StatusResponse{Version: c.version}, nil
}
