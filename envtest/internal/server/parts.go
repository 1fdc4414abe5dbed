// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/admission"
	"github.com/tarn-dev/tarn/envtest/internal/aggregation"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// layers are what is around the stores.
func (b *builder) layers() stores.Layers {
	layers := stores.Layers{
		Faults: b.from.Faults, WatchCache: b.from.WatchCache, Checks: b.from.Checks,
		Builtin: []stores.Decorate{custom.EstablishedEarlier}, Custom: []stores.Decorate{b.custom.Track},
		Deletion: stores.DefaultDeletion,
	}
	if b.gate != nil {
		layers.Builtin = append(layers.Builtin, b.gate.Track)
	}
	if b.from.Command != nil {
		f := b.from.Command.Flags.Etcd
		layers.Deletion = stores.Deletion{GarbageCollection: f.EnableGarbageCollection, Workers: f.DeleteCollectionWorkers}
	}
	return layers
}

// aggregationOf is what the part for other servers has from the start.
func aggregationOf(c Config, run context.Context, clients *serving.Loopback, offers *catalog.Catalog) aggregation.Config {
	config := aggregation.Config{
		Run: run, Clients: clients, Catalog: offers, Address: c.Listener.Address(), Resolver: c.Services, Credentials: c.Users.FrontCredentials,
	}
	if p := c.Command; p != nil {
		config.Rotated, config.Routing = p.Certificate(), aggregation.ClusterIPAddress
		if p.Flags.Aggregator.EndpointRouting {
			config.Routing = aggregation.EndpointAddress
		}
	}
	return config
}

// admission is what admission plugins work with.
func (b *builder) admission(kinds *builtin.Kinds) admission.Config {
	config := admission.Config{
		Run: b.run, Drained: b.handlers.drained, Clients: b.loopback, Webhooks: b.webhooks, Resolver: b.from.Webhooks,
		Plugins: b.from.Plugins, Kinds: kinds,
	}
	if b.gate != nil {
		config.Last = b.gate.Removed
	}
	return config
}

// parts are what acts on the contents.
func (s *Server) parts(kinds *builtin.Kinds) contents.Parts {
	p := contents.Parts{
		Kinds: kinds, Catalog: s.catalog, Custom: s.custom, Installer: s.Installer, APIServices: s.aggregation, Mapper: s.admission.Mapper,
		Informers: func() map[schema.GroupResource]*serving.Followed {
			all := s.loopback.Informers.All()
			all[stores.CRDs] = &serving.Followed{SharedIndexInformer: definitionsOf(s.crds).Informer()}
			return all
		},
	}
	for _, policies := range s.admission.Policies {
		p.Policies = append(p.Policies, policies)
	}
	return p
}
