// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

const (
	controllerName = "nodes"
	// mostNodes bounds Options.Count: each node has a Lease that is renewed.
	mostNodes = 1000
	// defaultRestartDelay is the first pause before a container starts again. A kubelet waits for ten seconds.
	defaultRestartDelay = 100 * time.Millisecond
)

// Options say what nodes there are, and how their Pods run. The zero value is one node, whose containers start at once.
type Options struct {
	// Count is how many nodes there are; 0 stands for 1.
	Count int

	// Name is what the names of the nodes begin with; the default is "node". A number follows: node-0, node-1.
	Name string

	// Node has labels, annotations, a spec and a capacity for each node. It is copied. The default has 32 CPUs, 128 GiB of
	// memory, 100 GiB of ephemeral storage, and room for 110 Pods.
	Node *corev1.Node

	// Schedule binds Pods to the nodes in turn, where no kube-scheduler runs: those without a node, with the default scheduler
	// and no scheduling gate, to nodes that run and have the labels of their nodeSelector. It looks at nothing else; a test of
	// taints, affinity or resources needs components.Scheduler.
	Schedule bool

	// Completion is how long a container runs that ends by itself: an init container, and each container whose restartPolicy, or
	// else that of its Pod, is not Always. The default is that it ends at once, with the exit code 0.
	Completion time.Duration

	// RestartDelay is the first pause before a container is started again that has failed, or whose image was not pulled. It
	// doubles each time, up to 32 times the first. The default is a tenth of a second.
	RestartDelay time.Duration
}

// errors says what is wrong with the options.
func (o *Options) errors() error {
	var errs []error
	if o.Count < 0 || o.Count > mostNodes {
		errs = append(errs, fmt.Errorf("nodes.Options.Count: %d is not between 0 and %d", o.Count, mostNodes))
	}
	for _, why := range validation.IsDNS1123Subdomain(o.Name + "-0") {
		errs = append(errs, fmt.Errorf("nodes.Options.Name: %q begins no name of a Node: %s", o.Name, why))
	}
	if o.Node != nil {
		for _, err := range append(metav1validation.ValidateLabels(o.Node.Labels, field.NewPath("labels")),
			apivalidation.ValidateAnnotations(o.Node.Annotations, field.NewPath("annotations"))...) {
			errs = append(errs, fmt.Errorf("nodes.Options.Node: %w", err))
		}
	}
	if o.Completion < 0 {
		errs = append(errs, fmt.Errorf("nodes.Options.Completion: %v is negative", o.Completion))
	}
	if o.RestartDelay < 0 {
		errs = append(errs, fmt.Errorf("nodes.Options.RestartDelay: %v is negative", o.RestartDelay))
	}
	return errors.Join(errs...)
}

// Nodes are nodes without kubelets, for one environment at a time. All methods are safe for concurrent use.
type Nodes struct {
	options Options
	names   []string
	rules   rules

	// changed has a value when all Pods must be looked at again because a rule or a node has changed, and nodes the same for Nodes.
	changed, nodes chan event.GenericEvent

	mu      sync.Mutex
	running bool            // guarded by mu
	stopped map[string]bool // guarded by mu: by name; at most Options.Count
}

// New returns nodes with options, which are copied. Start of the environment fails if the options are wrong.
func New(o Options) *Nodes {
	if o.Name == "" {
		o.Name = "node"
	}
	if o.Count == 0 {
		o.Count = 1
	}
	if o.RestartDelay == 0 {
		o.RestartDelay = defaultRestartDelay
	}
	o.Node = o.Node.DeepCopy()
	n := &Nodes{options: o, stopped: map[string]bool{}, changed: make(chan event.GenericEvent, 1), nodes: make(chan event.GenericEvent, 1)}
	if o.errors() != nil {
		return n
	}
	for i := range o.Count {
		n.names = append(n.names, fmt.Sprintf("%s-%d", o.Name, i))
	}
	return n
}

// Names returns the names of the nodes.
func (n *Nodes) Names() []string { return slices.Clone(n.names) }

// Controller returns the nodes for envtest.Options.Controllers. They end with the environment, and leave their objects.
func (n *Nodes) Controller() envtest.Controller {
	return envtest.Controller{Name: controllerName, Run: n.run, Err: n.options.errors()}
}

// Stop lets a node fail, as without a kubelet: its condition Ready becomes Unknown, its Lease is not renewed, and its Pods stay as
// they are. A Node that is not there, or that somebody deletes, comes with Start. The error is about a name that no node has. Stop
// returns at once.
func (n *Nodes) Stop(name string) error { return n.turn(name, true) }

// Start lets a node go on that Stop has stopped.
func (n *Nodes) Start(name string) error { return n.turn(name, false) }

func (n *Nodes) turn(name string, off bool) error {
	if !slices.Contains(n.names, name) {
		return fmt.Errorf("nodes: there is no node %q; there are %v", name, n.names)
	}
	n.mu.Lock()
	n.stopped[name] = off
	n.mu.Unlock()
	tell(n.nodes)
	tell(n.changed)
	return nil
}

// works says whether a node is one of these, and was not stopped.
func (n *Nodes) works(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.names, name) && !n.stopped[name]
}

// tell leaves word in a channel with room for one.
func tell(c chan<- event.GenericEvent) {
	select {
	case c <- event.GenericEvent{}:
	default: // it has word
	}
}

// run is the Run of the controller.
func (n *Nodes) run(ctx context.Context, cfg *rest.Config) error {
	if err := n.begin(); err != nil {
		return err
	}
	defer n.end()
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache:  cache.With(cache.Tuning{NoMetrics: true}), // the registry of metrics belongs to the program under test
		NewClient: client.New,
		Logger:    klog.FromContext(ctx),
		Metrics:   metricsserver.Options{BindAddress: "0"},
		// There is one controller of a name in each environment, and several environments in a process.
		Controller: config.Controller{SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: 1},
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := errors.Join(n.addKeeper(m), n.addPods(m)); err != nil {
		return err
	}
	if n.options.Schedule {
		if err := n.addScheduler(m); err != nil {
			return err
		}
	}
	return m.Start(ctx)
}

// pace limits how often each controller tries. A failure is tried again after a second at most, since a kubelet is not slower after an outage
// of minutes. A reconciliation may take ten seconds, since the other objects wait for it.
func pace() controller.Options {
	return controller.Options{
		RateLimiter:           workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, time.Second),
		ReconciliationTimeout: 10 * time.Second,
	}
}

func (n *Nodes) begin() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running {
		return errors.New("nodes: these nodes run in another environment; make others by nodes.New")
	}
	n.running = true
	return nil
}

func (n *Nodes) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = false
}
