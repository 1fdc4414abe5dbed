// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func TestLease(t *testing.T) {
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	specs.Run(t, "Lease Suite", // what waits the longest runs beside the rest
		[]string{"references_test.go"},
		[]string{"own_writes_test.go", "bounds_test.go"})
}

var (
	env specs.Server
	cfg *rest.Config
	api client.Client // reads from the API server
)

var _ = BeforeSuite(func(ctx SpecContext) { env, cfg, api = specs.EitherServer(ctx) })

// newNamespace creates a namespace for the spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return specs.Namespace(ctx, api, "lease-")
}

// idle is the idle time of the specs.
const idle = time.Second

// requests counts what goes from a cache to the API server, without discovery.
type requests struct {
	mu   sync.Mutex // guards what follows
	made []string   // paths with the namespace and the selectors, of lists and watches
	open []string   // watches that are under way
	gets []string   // paths of reads of single Secrets
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		query := req.URL.Query()
		selectors := url.Values{}
		for _, name := range []string{"fieldSelector", "labelSelector"} {
			if query.Get(name) != "" {
				selectors.Set(name, query.Get(name))
			}
		}
		what, _ := url.QueryUnescape(req.URL.Path + "?" + selectors.Encode())
		if _, lists := query["resourceVersion"]; !lists && !query.Has("watch") {
			if strings.Contains(req.URL.Path, "/secrets/") {
				r.mu.Lock()
				r.gets = append(r.gets, path.Base(req.URL.Path))
				r.mu.Unlock()
			}
			return next.RoundTrip(req)
		}
		r.mu.Lock()
		r.made = append(r.made, what)
		r.mu.Unlock()
		response, err := next.RoundTrip(req)
		if err == nil && response.StatusCode == http.StatusOK && query.Get("watch") == "true" {
			r.mu.Lock()
			r.open = append(r.open, what)
			r.mu.Unlock()
			context.AfterFunc(req.Context(), func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				if at := slices.Index(r.open, what); at >= 0 {
					r.open = slices.Delete(r.open, at, at+1)
				}
			})
		}
		return response, err
	})
}

// Made returns the different requests so far, in order.
func (r *requests) Made() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.made)))
}

// Open returns the watches that are under way.
func (r *requests) Open() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.open))
}

// Gets returns the names of the Secrets that were read one by one since the last call, in order.
func (r *requests) Gets() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	gets := slices.Sorted(slices.Values(r.gets))
	r.gets = nil
	return gets
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newCache makes a cache whose requests are counted.
func newCache(to *rest.Config, tuning cache.Tuning, opts cache.Options) (cache.Cache, *requests) {
	GinkgoHelper()
	counted := &requests{}
	to = rest.CopyConfig(to)
	to.Wrap(counted.wrap)
	tuning.LeaseIdleTime, tuning.NoMetrics = cmp.Or(tuning.LeaseIdleTime, idle), tuning.Registerer == nil
	c, err := cache.With(tuning)(to, opts)
	Expect(err).NotTo(HaveOccurred())
	return c, counted
}

// start runs c until the spec has ended or the returned function is called, which waits for its end.
func start(c cache.Cache) (stop func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
	DeferCleanup(stop)
	return stop
}

// started makes a cache and runs it until the spec ends.
func started(ctx context.Context, tuning cache.Tuning, opts cache.Options) (cache.Cache, *requests) {
	GinkgoHelper()
	c, counted := newCache(cfg, tuning, opts)
	start(c)
	Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
	return c, counted
}

func configMap(namespace, name, app string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Data:       map[string]string{"app": app},
	}
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(api.Create(ctx, obj)).To(Succeed())
	}
}

// permit gives a user verbs on Secrets of a namespace with these names, and on no others.
func permit(ctx context.Context, namespace, user string, verbs []string, names ...string) {
	GinkgoHelper()
	create(ctx,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "secrets"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: verbs,
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "secrets"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		})
}

func named(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// events is an event handler that notes what it hears.
type events struct {
	mu    sync.Mutex // guards heard
	heard []string
}

func (e *events) note(what string, obj any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, what+" "+obj.(client.Object).GetName())
}

func (e *events) OnAdd(obj any, _ bool) { e.note("add", obj) }
func (e *events) OnUpdate(_, obj any)   { e.note("update", obj) }
func (e *events) OnDelete(obj any)      { e.note("delete", obj) }

// Heard returns what the handler has heard, in order.
func (e *events) Heard() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}
