// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	localavailability "k8s.io/kube-aggregator/pkg/controllers/status/local"
	"k8s.io/kube-aggregator/pkg/controllers/status/metrics"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

// aggregationWorkers is how many APIServices a controller works on at a time, as in kube-apiserver.
const aggregationWorkers = 5

// Aggregation does kube-aggregator's work: the APIServices of what the server itself serves, and the other servers to which
// APIServices lead. Its controllers are those of k8s.io/kube-aggregator.
//
// Most tests have nothing to do with it, and it costs them nothing: it begins with the first request of somebody else for
// APIServices, which waits until those of the server are there. The controllers for other servers begin with the first
// other server.
type Aggregation struct {
	config Config
	own    *ownVersions // set before the server serves
	*hosts

	mu    sync.Mutex
	state aggregationState  // guarded by mu
	tasks sync.WaitGroup    // controllers; nothing is added when state is aggregationEnded
	ready chan struct{}     // closed when the server's own APIServices are there
	parts *aggregationParts // set by begin, before any task runs
}

type aggregationState int

const (
	aggregationIdle aggregationState = iota
	aggregationBegun
	aggregationEnded
)

// aggregationParts is what the controllers share.
type aggregationParts struct {
	client    clientset.Interface
	informers aggregatorinformers.SharedInformerFactory
	metrics   *metrics.Metrics
}

// Config is what the part has from the start.
type Config struct {
	Run      context.Context // of the server
	Clients  *serving.Loopback
	Catalog  *catalog.Catalog
	Address  string                              // of the server: host and port
	Resolver aggregatorapiserver.ServiceResolver // finds the Services of APIServices; nil if routing does
	Routing  Routing
	// Credentials returns the certificate and key by which other servers know this one.
	Credentials func() (cert, key []byte)
	Rotated     dynamiccertificates.Notifier // tells of new credentials; nil if there are never any
}

// Routing is how the Service of an APIService is found.
type Routing int

const (
	AnyAddress       Routing = iota // by its external name, or else by its endpoints
	EndpointAddress                 // by its endpoints
	ClusterIPAddress                // by its own address
)

// Front is the server that the part is in front of.
type Front struct {
	CRDs     crdinformers.CustomResourceDefinitionInformer // of the CRD server
	Director http.Handler                                  // answers without the handler chain
	OpenAPI  *common.Config                                // of the second version's document
}

// New is for a server that is not there yet.
func New(c Config) *Aggregation {
	a := &Aggregation{config: c, ready: make(chan struct{})}
	a.hosts = &hosts{start: a.beginRemote, credentials: c.Credentials, catalog: c.Catalog}
	return a
}

// StandBefore names the server, and the built-in groups that it serves. It is called before the server serves.
func (a *Aggregation) StandBefore(front Front, groups []*genericapiserver.APIGroupInfo) {
	a.front = front
	a.own = newOwnVersions(front.CRDs, groups)
}

// Wrap forwards requests to servers named by APIServices. It stands where the user is known, and allowed to ask.
func (a *Aggregation) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if a.concerns(req) {
			if err := a.await(req.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		if to := a.routes.Load(); to != nil {
			if handler := to.handler(req.URL.Path); handler != nil {
				handler.ServeHTTP(w, req)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

// concerns says whether somebody other than the server asks for APIServices.
func (a *Aggregation) concerns(req *http.Request) bool {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || info.APIGroup != apiregistrationv1.GroupName {
		return false
	}
	who, ok := request.UserFrom(req.Context())
	return ok && who.GetName() != user.APIServerUser
}

// await begins, and returns when the server's own APIServices are there.
func (a *Aggregation) await(ctx context.Context) error {
	if err := a.begin(); err != nil {
		return err
	}
	select {
	case <-a.ready:
		return nil
	case <-a.config.Run.Done():
		return serving.ErrStopping
	case <-ctx.Done():
		return fmt.Errorf("wait for the APIServices of the server: %w", context.Cause(ctx))
	}
}

// begin starts the controllers, once.
func (a *Aggregation) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.state {
	case aggregationBegun:
		return nil
	case aggregationEnded:
		return serving.ErrStopping
	}
	client, err := clientset.NewForConfig(serving.Impatient(a.config.Clients.Config))
	if err != nil {
		return fmt.Errorf("create a client for APIServices: %w", err)
	}
	a.parts = &aggregationParts{client: client, informers: aggregatorinformers.NewSharedInformerFactory(client, 0), metrics: metrics.New()}
	services := a.parts.informers.Apiregistration().V1().APIServices()
	auto := autoregister.NewAutoRegisterController(services, client.ApiregistrationV1())
	available, err := localavailability.New(services, client.ApiregistrationV1(), a.parts.metrics)
	if err != nil {
		return fmt.Errorf("create the controller of the server's APIServices: %w", err)
	}
	crds, err := a.own.register(auto)
	if err != nil {
		return err
	}
	registration := aggregatorapiserver.NewAPIServiceRegistrationController(services, a.hosts)
	if a.config.Rotated != nil {
		a.config.Rotated.AddListener(registration) // a new certificate is for every host
	}
	done := a.config.Run.Done()
	a.state = aggregationBegun
	a.parts.informers.Start(done)
	a.tasks.Go(func() { auto.Run(aggregationWorkers, done) })
	a.tasks.Go(func() { available.Run(aggregationWorkers, done) })
	registered := make(chan struct{})
	a.tasks.Go(func() { registration.Run(done, registered) })
	a.tasks.Go(func() { a.waitLocal(crds, registered) })
	return nil
}

// waitLocal closes ready when the informer has the APIServices of what is served now, and the routes of earlier APIServices
// are made. The controllers tell nobody how far they are.
func (a *Aggregation) waitLocal(crds cache.ResourceEventHandlerRegistration, registered <-chan struct{}) {
	known := a.parts.informers.Apiregistration().V1().APIServices().Lister()
	err := serving.Poll(a.config.Run, func() (bool, error) {
		if !crds.HasSynced() {
			return false, nil
		}
		for gv := range a.own.served() {
			if _, err := known.Get(apiServiceName(gv)); err != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return // the server stops
	}
	select {
	case <-registered:
		close(a.ready)
	case <-a.config.Run.Done():
	}
}

// End returns when the controllers have ended. The context of the server has ended before.
func (a *Aggregation) End() {
	a.mu.Lock()
	before := a.state
	a.state = aggregationEnded
	a.mu.Unlock()
	if before == aggregationBegun {
		a.tasks.Wait()
		a.parts.informers.Shutdown()
	}
	a.forget()
}

// Resume begins if APIServices from an earlier life of the etcd lead to other servers.
func (a *Aggregation) Resume(ctx context.Context) error {
	client, err := clientset.NewForConfig(a.config.Clients.Config)
	if err != nil {
		return fmt.Errorf("create a client for APIServices: %w", err)
	}
	list, err := client.ApiregistrationV1().APIServices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the APIServices that there are: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.Service != nil {
			return a.await(ctx)
		}
	}
	return nil
}

func apiServiceName(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// apiServiceOf is the APIService of a group version that the server itself serves.
func apiServiceOf(gv schema.GroupVersion, p catalog.Priority) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiServiceName(gv)},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: int32(p.Group), VersionPriority: int32(p.Version),
		},
	}
}

// Informer returns the informer of APIServices, nil if nobody has asked for one yet.
func (a *Aggregation) Informer() cache.SharedIndexInformer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != aggregationBegun {
		return nil
	}
	return a.parts.informers.Apiregistration().V1().APIServices().Informer()
}

// Routed reports whether requests go where the informer's APIService says: to another server, or not.
func (a *Aggregation) Routed(name string, informer cache.SharedIndexInformer) bool {
	wanted := false
	if obj, exists, err := informer.GetStore().GetByKey(name); err == nil && exists {
		service, ok := obj.(*apiregistrationv1.APIService)
		wanted = ok && service.Spec.Service != nil
	}
	to := a.routes.Load()
	return wanted == (to != nil && to.versions[helper.APIServiceNameToGroupVersion(name)] != nil)
}
