// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync/atomic"
	"time"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/access"
	"github.com/tarn-dev/tarn/envtest/internal/admission"
	"github.com/tarn-dev/tarn/envtest/internal/aggregation"
	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/commandline"
	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/flags"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// Server is the API server of one environment: k8s.io/apiserver's generic server with the CRD server's handlers and the
// built-in kinds in it, behind a listener of our own.
type Server struct {
	from      Config
	crds      *crdserver.CustomResourceDefinitions
	catalog   *catalog.Catalog
	loopback  *serving.Loopback
	custom    custom.Stores
	Installer *custom.Installer
	Contents  *contents.Contents // nil if the etcd is shared with other servers
	openAPI   *catalog.OpenAPI
	others    *aggregation.Aggregation
	hooks     hooks
	gates
	life
}

// Config is what a server is made of.
type Config struct {
	Etcd       stores.Backing
	Listener   *serving.Listener
	Users      *access.Users
	WatchCache stores.Decorate
	Checks     *stores.Consistency // nil if watch caches are not checked
	Faults     *faults.Injector    // nil without
	Plugins    *flags.Plugins      // of admission, switched on and off
	Modes      []string            // of the authorizer
	Webhooks   webhook.ServiceResolver
	Services   aggregatorapiserver.ServiceResolver // of APIServices; nil if they are found where they are
	Command    *commandline.Process                // nil without a command line
}

// gates are what requests pass beside the handler chain, and on their way to webhooks.
type gates struct {
	ready    chan struct{}    // closed when requests of others are answered; nil if nobody can know of the server before
	handlers serving.Requests // inside the handler chain, where the server's own time-outs do not cut a handler off
	webhooks *admission.Webhooks
}

// life is how long the parts of a server live.
type life struct {
	run     context.Context
	cancel  context.CancelFunc // ends run
	drained chan struct{}      // closed when no handler runs any more
}

// hooks is what a server knows of its hooks.
type hooks struct {
	ran          bool
	patience     time.Duration // with them, when the server stops
	bootstrapped atomic.Bool   // what bootstrap makes is in force
}

// definitions has the CRD server's informer.
func (s *Server) definitions() crdinformers.CustomResourceDefinitionInformer {
	return s.crds.Informers.Apiextensions().V1().CustomResourceDefinitions()
}

// terminating reports whether the definition of a resource is being deleted, as far as the CRD server knows.
func (s *Server) terminating(resource schema.GroupResource) bool {
	crd, err := s.definitions().Lister().Get(resource.String())
	return err == nil && crd.DeletionTimestamp != nil
}
