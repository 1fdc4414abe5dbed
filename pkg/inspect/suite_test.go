// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

func TestInspect(t *testing.T) {
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Inspect Suite")
}

// patience is how long a spec waits for what must happen soon.
const patience = specs.Patience

var (
	env *envtest.Environment
	cfg *rest.Config
	api client.Client // reads from the API server
)

var _ = BeforeSuite(func(ctx SpecContext) { env, cfg, api = specs.Environment(ctx, envtest.Options{}) })

// newNamespace creates a namespace for the spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return specs.Namespace(ctx, api, "inspect-")
}

// started runs a cache until the spec ends.
func started(makeCache cache.NewCacheFunc, with *rest.Config, opts cache.Options) cache.Cache {
	GinkgoHelper()
	c, err := makeCache(with, opts)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
	Expect(c.WaitForCacheSync(ctx)).To(BeTrue(), "it is started, and has no informer yet")
	return c
}

// watched has informers of the kinds of objects, and returns when they have synced.
func watched(ctx context.Context, c cache.Cache, objects ...client.Object) {
	GinkgoHelper()
	for _, obj := range objects {
		_, err := c.GetInformer(ctx, obj)
		Expect(err).NotTo(HaveOccurred())
	}
}

// looking is a client of a handler.
type looking struct{ handler http.Handler }

func look(c cache.Cache, o inspect.Options) looking {
	GinkgoHelper()
	h, err := inspect.New(c, o)
	Expect(err).NotTo(HaveOccurred())
	return looking{h}
}

// at returns the answer to a path.
func (l looking) at(method, path string) *http.Response {
	recorder := httptest.NewRecorder()
	l.handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder.Result()
}

// text returns the body of an answer, which must have that code.
func (l looking) text(code int, path string, query ...string) string {
	GinkgoHelper()
	answer := l.at(http.MethodGet, path+queryOf(query))
	body, err := io.ReadAll(answer.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(answer.StatusCode).To(Equal(code), "%s: %s", path, body)
	return string(body)
}

// queryOf makes a query of names and values.
func queryOf(pairs []string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// tree is JSON that was read.
type tree = map[string]any

// json returns the JSON of an answer.
func (l looking) json(path string, query ...string) tree {
	GinkgoHelper()
	content := tree{}
	Expect(json.Unmarshal([]byte(l.text(http.StatusOK, path, query...)), &content)).To(Succeed())
	return content
}

// refused returns the Status with which a request is refused.
func (l looking) refused(code int, path string, query ...string) string {
	GinkgoHelper()
	status := metav1.Status{}
	Expect(json.Unmarshal([]byte(l.text(code, path, query...)), &status)).To(Succeed())
	Expect(status.Kind).To(Equal("Status"))
	Expect(status.Code).To(BeEquivalentTo(code))
	Expect(status.Reason).NotTo(BeEmpty())
	return status.Message
}

// informer returns what the overview has of a kind, as structured unless another representation is
// named.
func (l looking) informer(kind, representation string) tree {
	GinkgoHelper()
	for _, one := range l.json("/api/v1/overview")["kinds"].([]any) {
		if info := one.(tree); info["kind"] == kind && info["representation"] == representation {
			return info
		}
	}
	return nil
}

// namesOf returns the names of the items of a list.
func namesOf(list tree) (names []string) {
	for _, item := range list["items"].([]any) {
		names = append(names, item.(tree)["name"].(string))
	}
	return names
}

// wire counts the requests of a cache, and can hold or cut its watches.
type wire struct {
	next     http.RoundTripper
	requests atomic.Int64
	hold     chan struct{} // watches bring nothing any more once it is closed
	down     chan struct{} // the API server cannot be reached once it is closed, and a watch ends with its next event
}

// through returns a function that makes caches whose requests go through n.
func (n *wire) through(next cache.NewCacheFunc) cache.NewCacheFunc {
	return func(c *rest.Config, opts cache.Options) (cache.Cache, error) {
		var err error
		if n.next, err = rest.TransportFor(c); err != nil {
			return nil, err
		}
		opts.HTTPClient = &http.Client{Transport: n}
		return next(c, opts)
	}
}

// RoundTrip implements http.RoundTripper.
func (n *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	n.requests.Add(1)
	select {
	case <-n.down:
		return nil, syscall.ECONNREFUSED
	default:
	}
	answer, err := n.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		answer.Body = &heldBody{ReadCloser: answer.Body, hold: n.hold, down: n.down, ended: r.Context().Done()}
	}
	return answer, err
}

// heldBody passes on what it reads until it is held, or the API server cannot be reached.
type heldBody struct {
	io.ReadCloser
	hold, down, ended <-chan struct{}
}

// Read implements io.Reader.
func (b *heldBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	select {
	case <-b.hold:
		<-b.ended
		return 0, io.EOF
	case <-b.down:
		return 0, io.EOF
	default:
		return n, err
	}
}

func configMap(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Data:       map[string]string{"name": name},
	}
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(api.Create(ctx, obj)).To(Succeed())
	}
}
