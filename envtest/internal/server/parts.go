// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/tarn-dev/tarn/envtest/internal/admission"
	"github.com/tarn-dev/tarn/envtest/internal/aggregation"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// known decorates the stores of built-in kinds and of CustomResourceDefinitions.
func (s *Server) known(resource schema.GroupResource, next generic.StorageDecorator) generic.StorageDecorator {
	if resource == stores.CRDs {
		next = custom.EstablishedEarlier(next)
	}
	return s.Contents.Note(resource, next)
}

// aggregated is what the part for other servers has from the start.
func (s *Server) aggregated() aggregation.Config {
	config := aggregation.Config{
		Run: s.run, Clients: s.loopback, Catalog: s.catalog, Address: s.from.Listener.Address(), Resolver: s.from.Services,
		Credentials: s.from.Users.FrontCredentials,
	}
	if p := s.from.Command; p != nil {
		config.Rotated, config.Routing = p.Certificate(), aggregation.ClusterIPAddress
		if p.Flags.Aggregator.EndpointRouting {
			config.Routing = aggregation.EndpointAddress
		}
	}
	return config
}

// admission is what admission plugins work with.
func (s *Server) admission(kinds *builtin.Kinds) admission.Config {
	config := admission.Config{
		Run: s.run, Drained: s.drained, Clients: s.loopback, Webhooks: s.webhooks, Resolver: s.from.Webhooks,
		Plugins: s.from.Plugins, Kinds: kinds, Renewable: s.Contents != nil,
	}
	if s.Contents != nil {
		config.Last = s.Contents.Removed
	}
	return config
}

// parts are what acts on the contents.
func (s *Server) parts(kinds *builtin.Kinds, chain *admission.Chain) contents.Parts {
	p := contents.Parts{
		Kinds: kinds, Catalog: s.catalog, Custom: &s.custom, Installer: s.Installer, APIServices: s.others, Mapper: chain.Mapper,
		Informers: func() map[schema.GroupResource]*serving.Followed {
			all := s.loopback.Informers.All()
			all[stores.CRDs] = &serving.Followed{SharedIndexInformer: s.definitions().Informer()}
			return all
		},
	}
	for _, policies := range chain.Policies {
		p.Policies = append(p.Policies, policies)
	}
	return p
}
