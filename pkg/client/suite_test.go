// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/internal/specs"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

func TestClient(t *testing.T) {
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Client Suite")
}

// patience is how long a spec waits for what must happen soon.
const patience = specs.Patience

var (
	cfg *rest.Config
	api crclient.Client // reads from the API server
)

var _ = BeforeSuite(func(ctx SpecContext) { _, cfg, api = specs.EitherServer(ctx) })

// newNamespace creates a namespace for the spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return specs.Namespace(ctx, api, "client-")
}

// connection is the way between a cache or a client and the API server. It holds the
// watches back, counts requests, and can lose answers.
type connection struct {
	mu   sync.Mutex    // guards what follows
	open chan struct{} // closed while watches may pass
	only string        // in the paths of the watches that are held

	watches atomic.Int64                        // that were begun
	reads   atomic.Int64                        // gets and lists of resources
	lose    atomic.Bool                         // the answers to writes
	cut     atomic.Int64                        // raised to end all watches that are there
	down    atomic.Bool                         // every request fails
	refuse  atomic.Int64                        // the status with which gets and lists are answered, 0 for what the server says
	rewrite atomic.Pointer[func([]byte) []byte] // what the server answers to writes
	ends    atomic.Pointer[string]              // in the event behind which a watch in JSON brings nothing
	again   atomic.Bool                         // the next write is answered with an error after which client-go repeats it
}

func newConnection() *connection {
	s := &connection{open: make(chan struct{})}
	close(s.open)
	return s
}

// hold keeps all that watches bring from now on, until pass is called.
func (s *connection) hold() { s.holdOnly("") }

// holdOnly is hold for the watches with a text in their path.
func (s *connection) holdOnly(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.only = make(chan struct{}), text
}

func (s *connection) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.open)
}

// gate returns what is closed when a watch with this path may pass.
func (s *connection) gate(path string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(path, s.only) {
		return nothingHeld
	}
	return s.open
}

var nothingHeld = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (s *connection) config() *rest.Config {
	through := rest.CopyConfig(cfg)
	through.Wrap(func(next http.RoundTripper) http.RoundTripper { return &stop{s, next} })
	return through
}

type stop struct {
	*connection
	next http.RoundTripper
}

// ofResource matches the paths of resources, and not those of discovery.
var ofResource = regexp.MustCompile(`^/(api/v1|apis/[^/]+/[^/]+)/.`)

// RoundTrip implements http.RoundTripper.
func (s *stop) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.down.Load() {
		return nil, io.ErrUnexpectedEOF
	}
	watch := r.URL.Query().Get("watch") != ""
	switch {
	case watch:
		s.watches.Add(1)
	case r.Method == http.MethodGet && ofResource.MatchString(r.URL.Path):
		s.reads.Add(1)
		if code := int(s.refuse.Load()); code != 0 {
			body := io.NopCloser(strings.NewReader(http.StatusText(code)))
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: body, Request: r}, nil
		}
	}
	response, err := s.next.RoundTrip(r)
	if err == nil && watch {
		response.Body = &held{ReadCloser: response.Body, connection: s.connection, path: r.URL.Path, ctx: r.Context(), cut: s.cut.Load()}
	}
	if err == nil && r.Method != http.MethodGet && s.lose.Load() {
		response.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	if err == nil && r.Method != http.MethodGet && s.again.CompareAndSwap(true, false) {
		response.Body.Close()
		body := io.NopCloser(strings.NewReader("try again"))
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"0"}}, Body: body, Request: r}, nil
	}
	if rewrite := s.rewrite.Load(); err == nil && r.Method != http.MethodGet && rewrite != nil {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		body = (*rewrite)(body)
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return response, err
}

type held struct {
	io.ReadCloser
	connection *connection
	path       string
	ctx        context.Context
	cut        int64 // when it began
	event      []byte
}

// readEvent reads a part of the next event, and nothing of those from one with a text on.
func (h *held) readEvent(p []byte, ends string) (int, error) {
	for char := make([]byte, 1); len(h.event) == 0 || h.event[len(h.event)-1] != '\n'; {
		if n, err := h.ReadCloser.Read(char); err != nil {
			return 0, err
		} else if n > 0 {
			h.event = append(h.event, char[0])
		}
	}
	if strings.Contains(string(h.event), ends) {
		<-h.ctx.Done()
		return 0, h.ctx.Err()
	}
	n := copy(p, h.event)
	if h.event = h.event[n:]; len(h.event) == 0 {
		h.event = nil
	}
	return n, nil
}

// Read implements io.Reader.
func (h *held) Read(p []byte) (int, error) {
	if ends := h.connection.ends.Load(); ends != nil {
		return h.readEvent(p, *ends)
	}
	n, err := h.ReadCloser.Read(p)
	select {
	case <-h.connection.gate(h.path):
	case <-h.ctx.Done():
		return 0, h.ctx.Err()
	}
	if h.connection.cut.Load() != h.cut {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// program is a client with its cache, as a manager would make them.
type program struct {
	crclient.Client
	cache   cache.Cache
	watches *connection // between the cache and the server
	writes  *connection // between the client and the server
}

// maker makes a client and its cache.
type maker struct {
	cache      cache.NewCacheFunc
	client     crclient.NewClientFunc
	experiment *bool // controller-runtime's way to read own writes
}

var (
	ours   = maker{cache: cache.New, client: client.New}
	theirs = maker{cache: crcache.New, client: crclient.New, experiment: ptr.To(true)}
)

// run makes a program, which ends with the spec.
func (m maker) run(ctx context.Context, opts cache.Options, with crclient.CacheOptions) *program {
	GinkgoHelper()
	p := &program{watches: newConnection(), writes: newConnection()}
	c, err := m.cache(p.watches.config(), opts)
	Expect(err).NotTo(HaveOccurred())
	p.cache = c
	if with.EnableReadYourWritesConsistency = m.experiment; with.Reader == nil {
		with.Reader = c
	}
	p.Client, err = m.client(p.writes.config(), crclient.Options{Cache: &with, Scheme: opts.Scheme})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(running) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
	Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
	return p
}

// watch has the informers of the examples sync, and then holds the watches back.
func (p *program) watch(ctx context.Context, examples ...crclient.Object) {
	GinkgoHelper()
	for _, example := range examples {
		_, err := p.cache.GetInformer(ctx, example)
		Expect(err).NotTo(HaveOccurred())
	}
	p.watches.hold()
	DeferCleanup(p.watches.pass)
}

func configMap(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// names returns the names of the items of a list.
func names(list *corev1.ConfigMapList) []string {
	names := []string{}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}
