// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

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
	*base
	listener  *serving.Listener
	users     *access.Users
	command   *commandline.Process // nil without a command line
	crds      *crdserver.CustomResourceDefinitions
	openAPI   *catalog.OpenAPI
	Installer *custom.Installer
	contents  *contents.Contents // nil if the etcd is shared with other servers
	ready     chan struct{}      // closed when requests of others are answered; nil if nobody can know of the server before
	admission *admission.Chain
	hooks     *hooks
}

// Contents returns what the server has stored, or an error if it shares its etcd with other servers.
func (s *Server) Contents() (*contents.Contents, error) {
	if s.contents == nil {
		return nil, contents.ErrShared
	}
	return s.contents, nil
}

// KeepInitial notes the state of now, if it can be replaced as a whole: Reset goes back to it.
func (s *Server) KeepInitial(ctx context.Context) error {
	if s.contents == nil {
		return nil
	}
	return s.contents.KeepInitial(ctx)
}

// base is what a server stands on: its stores, its handler chain and its webhooks pass these parts.
type base struct {
	run         context.Context    // of the server
	cancel      context.CancelFunc // ends run
	loopback    *serving.Loopback
	catalog     *catalog.Catalog
	aggregation *aggregation.Aggregation
	custom      *custom.Stores
	gate        *contents.Gate // nil if the etcd is shared with other servers
	handlers    *handlers
	webhooks    *admission.Webhooks
}

// builder makes a server of a configuration, on a base.
type builder struct {
	*base
	from Config
}

// Config is what a server is made of.
type Config struct {
	Etcd       stores.Backing
	Listener   *serving.Listener
	Users      *access.Users
	WatchCache stores.Decorate
	Checks     *stores.Consistency // nil if watch caches are not checked; the caller asks what they have found
	Faults     *faults.Injector    // nil without
	Plugins    *flags.Plugins      // of admission, switched on and off
	Modes      []string            // of the authorizer
	Webhooks   webhook.ServiceResolver
	Services   aggregatorapiserver.ServiceResolver // of APIServices; nil if they are found where they are
	Command    *commandline.Process                // nil without a command line
}

// handlers are inside the handler chain, where the server's own time-outs do not cut a handler off.
type handlers struct {
	serving.Requests
	drained chan struct{} // closed by close
}

func newHandlers() *handlers { return &handlers{drained: make(chan struct{})} }

// close lets no further handler begin, and returns when none runs any more.
func (h *handlers) close() {
	h.Close()
	close(h.drained)
}

// definitionsOf has the CRD server's informer.
func definitionsOf(crds *crdserver.CustomResourceDefinitions) crdinformers.CustomResourceDefinitionInformer {
	return crds.Informers.Apiextensions().V1().CustomResourceDefinitions()
}

// terminating reports whether the definition of a resource is being deleted, as far as the CRD server knows.
func (s *Server) terminating(resource schema.GroupResource) bool {
	crd, err := definitionsOf(s.crds).Lister().Get(resource.String())
	return err == nil && crd.DeletionTimestamp != nil
}
