// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/pkg/client"
)

// unread notes writes, and is never read.
type unread struct {
	crclient.Reader
	writes []note.Write
}

// NoteWrite implements note.Noter.
func (u *unread) NoteWrite(w note.Write) { u.writes = append(u.writes, w) }

// clientOf returns a client, and what it notes.
func clientOf(g *WithT, config *rest.Config) (crclient.Client, *unread) {
	noted := &unread{}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	c, err := client.New(config, crclient.Options{Scheme: scheme.Scheme, Mapper: mapper, Cache: &crclient.CacheOptions{Reader: noted}})
	g.Expect(err).NotTo(HaveOccurred())
	return c, noted
}

// TestARequestThatNeverLeftWritesNothing: a failed write is noted if, and only if, the server may have got it.
func TestARequestThatNeverLeftWritesNothing(t *testing.T) {
	received := make(chan struct{}, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Query().Get("fieldManager") == "ends" {
			panic(http.ErrAbortHandler)
		}
		received <- struct{}{}
		<-r.Context().Done()
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	dialing := make(chan struct{}, 2)
	unreachable := func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialing <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	for name, c := range map[string]struct {
		config  func(*rest.Config)
		limit   func(context.Context) (context.Context, context.CancelFunc)
		manager string
		noted   int
	}{
		"a certificate that is not trusted": {config: func(c *rest.Config) { c.Insecure = false }},
		"no version of TLS in common": {config: func(c *rest.Config) {
			c.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}}
			c.TLSClientConfig = rest.TLSClientConfig{}
		}},
		"nobody there": {config: func(c *rest.Config) { c.Host = "https://127.0.0.1:1" }},
		"an end while it dials": {config: func(c *rest.Config) { c.Dial = unreachable }, limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-dialing; cancel() }()
			return ctx, cancel
		}},
		"a context that had ended": {limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}},
		"a connection that ends": {manager: "ends", noted: 1},
		"an end while the server thinks": {noted: 1, limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-received; cancel() }()
			return ctx, cancel
		}},
		"a transport that does not trace": {noted: 1, config: func(c *rest.Config) {
			c.Transport = untraced{}
			c.TLSClientConfig = rest.TLSClientConfig{}
		}},
		"a transport that does not trace and cannot dial": {config: func(c *rest.Config) {
			c.Transport = untraced{&net.OpError{Op: "dial", Err: io.EOF}}
			c.TLSClientConfig = rest.TLSClientConfig{}
		}},
	} {
		for _, generated := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				config := &rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
				if c.config != nil {
					c.config(config)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if c.limit != nil {
					ctx, cancel = c.limit(t.Context())
				}
				defer cancel()
				with, noted := clientOf(g, config)
				made := configMap("ns", "a", nil)
				if generated {
					made.Name, made.GenerateName = "", "a-"
				}
				g.Expect(with.Create(ctx, made, crclient.FieldOwner(c.manager))).NotTo(Succeed())
				g.Expect(noted.writes).To(HaveLen(c.noted))
			})
		}
	}
}

// untraced is a transport that calls no hook of httptrace.
type untraced struct{ err error }

// RoundTrip implements http.RoundTripper.
func (u untraced) RoundTrip(*http.Request) (*http.Response, error) {
	if u.err != nil {
		return nil, u.err
	}
	return nil, io.ErrUnexpectedEOF
}

// TestAFenceRefusesWritesAlone: no request of a write is sent when its context must not be used to write any more, whoever is asked.
func TestAFenceRefusesWritesAlone(t *testing.T) {
	g := NewWithT(t)
	var methods []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	c, noted := clientOf(g, config)
	refused, open := errors.New("the key is another replica's"), true
	ctx := note.Fence(t.Context(), func() error {
		if open {
			return nil
		}
		return refused
	})
	ctx = note.Fence(ctx, func() error { return nil })
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	patch := crclient.RawPatch(types.MergePatchType, []byte("{}"))
	writes := map[string]func() error{
		"create": func() error { return c.Create(ctx, obj.DeepCopy()) },
		"update": func() error { return c.Update(ctx, obj.DeepCopy()) },
		"patch":  func() error { return c.Patch(ctx, obj.DeepCopy(), patch) },
		"apply": func() error {
			return c.Apply(ctx, corev1apply.ConfigMap("x", "default"), crclient.FieldOwner("test"))
		},
		"delete":        func() error { return c.Delete(ctx, obj.DeepCopy()) },
		"delete all of": func() error { return c.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace("default")) },
		"status":        func() error { return c.Status().Update(ctx, obj.DeepCopy()) },
		"subresource":   func() error { return c.SubResource("scale").Patch(ctx, obj.DeepCopy(), patch) },
	}
	for name, write := range writes {
		g.Expect(crclient.IgnoreNotFound(write())).To(Succeed(), name)
	}
	g.Expect(methods).To(HaveLen(len(writes)))
	methods, open, noted.writes = nil, false, nil
	for name, write := range writes {
		g.Expect(write()).To(MatchError(refused), name)
	}
	g.Expect(methods).To(BeEmpty())
	g.Expect(noted.writes).To(BeEmpty(), "nothing was written")
	g.Expect(c.SubResource("scale").Get(ctx, obj, obj.DeepCopy())).NotTo(MatchError(refused))
	g.Expect(methods).To(Equal([]string{http.MethodGet}), "a read needs no permission")
	uncached, err := client.New(config, crclient.Options{Scheme: scheme.Scheme, Mapper: c.RESTMapper()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(uncached.Update(ctx, obj.DeepCopy())).To(MatchError(refused), "without a cache")
	g.Expect(uncached.SubResource("eviction").Create(ctx, obj.DeepCopy(), &corev1.ConfigMap{})).To(MatchError(refused))
	g.Expect(methods).To(HaveLen(1))
}

// TestARefusedDeletionOfACollection is ambiguous unless it was refused before the first object: by the authorizer,
// and not by the admission of one of the objects, which answers with any status and as a rule with 400.
func TestARefusedDeletionOfACollection(t *testing.T) {
	unauthorized := apierrors.NewForbidden(corev1.Resource("configmaps"), "",
		errors.New(`User "u" cannot deletecollection resource "configmaps" in API group "" in the namespace "ns": no rule allows it`)).ErrStatus
	for name, c := range map[string]struct {
		status metav1.Status
		noted  int
	}{
		"by the authorizer":         {status: unauthorized},
		"by an admission plugin":    {status: apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("it is protected")).ErrStatus, noted: 1},
		"for an object":             {status: apierrors.NewForbidden(corev1.Resource("configmaps"), "a", errors.New(`cannot deletecollection resource "x"`)).ErrStatus, noted: 1},
		"by a webhook":              {status: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Message: `admission webhook "w" denied the request`}, noted: 1},
		"by a webhook with no code": {status: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: `admission webhook "w" denied the request`}, noted: 1},
		"for its Accept header":     {status: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable}},
		"for its length":            {status: apierrors.NewRequestEntityTooLargeError("limit is 1").ErrStatus},
		"for its content type":      {status: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			status := c.status
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(status.Code))
				_ = json.NewEncoder(w).Encode(status)
			}))
			defer server.Close()
			with, noted := clientOf(g, &rest.Config{Host: server.URL})
			g.Expect(with.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, crclient.InNamespace("ns"))).NotTo(Succeed())
			g.Expect(noted.writes).To(HaveLen(c.noted))
		})
	}
}
