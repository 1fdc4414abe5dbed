// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

// everyAction has each action of the package.
var everyAction = []Action{
	Respond(errors.New("no")), Delay(time.Minute), DropRequest(), DropAnswer(), HalfAnswer(), Cut(0), Cut(1), Expire(), Corrupt(), Shift(time.Hour),
}

// TestEachActionHappensWhereItFits puts each action into force at each fault point, also where Inject would refuse it. It has an effect
// there, and hits, if and only if fits says so.
func TestEachActionHappensWhereItFits(t *testing.T) {
	for at, probe := range map[Station]func(*Injector) string{
		HTTP: probeHTTP, Storage: probeStorage, Etcd: probeEtcd, Webhook: probeWebhook, Clock: probeClock,
	} {
		for n, action := range everyAction {
			t.Run(fmt.Sprintf("%d %s at %s", n, nameOf(action), at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					i, r := New(), Rule{Station: at}
					_, events := action.(streamAction)
					if events && (at == HTTP || at == Storage) {
						r.Verb = verbWatch
					}
					fits := r.fits(action) == nil
					in := &rule{Rule: r, action: action, over: make(chan struct{})}
					before := probe(i)
					if err := i.put(in); err != nil {
						t.Fatal(err)
					}
					after := probe(i)
					if happened := after != before; happened != fits {
						t.Errorf("it fits: %t, and has an effect: %t (%q, then %q)", fits, happened, before, after)
					}
					if hits := in.count() > 0; hits != fits {
						t.Errorf("it fits: %t, and has hits: %t", fits, hits)
					}
				})
			})
		}
	}
}

// took says how something ended, and whether it lasted.
func took(began time.Time, what any) string {
	return fmt.Sprint(what, " after ", time.Since(began).Truncate(time.Second))
}

// probeHTTP sends a read and a watch through an Injector.
func probeHTTP(i *Injector) string {
	var seen []string
	for _, url := range []string{"/api/v1/namespaces/a/pods/b", "/api/v1/pods?watch=1"} {
		began, w := time.Now(), httptest.NewRecorder()
		func() {
			defer func() {
				if cut := recover(); cut != nil {
					seen = append(seen, "cut")
				}
			}()
			i.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"type":"ADDED","object":{"metadata":{"name":"b"}}}` + "\n"))
				_, _ = w.Write([]byte(`{"type":"ADDED","object":{"metadata":{"name":"c"}}}` + "\n"))
			})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		}()
		seen = append(seen, took(began, fmt.Sprint(w.Code, w.Body)))
	}
	return strings.Join(seen, "; ")
}

// oneWatch is a storage whose reads succeed, and whose watches are open.
type oneWatch struct{ storage.Interface }

func (oneWatch) Get(context.Context, string, storage.GetOptions, runtime.Object) error { return nil }

func (oneWatch) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// probeStorage reads an object through an Injector, and opens a watch.
func probeStorage(i *Injector) string {
	keys := Keys{Resource: schema.GroupResource{Resource: "pods"}, Root: "/registry", Prefix: "/pods"}
	s, end := i.Storage(keys, oneWatch{})
	defer end()
	began := time.Now()
	seen := []string{fmt.Sprint(s.Get(context.Background(), "/pods/a/b", storage.GetOptions{}, nil))}
	q := i.callOf(context.Background(), verbGet, keys.Resource)
	data, _, err := i.Transformer(keys, identity.NewEncryptCheckTransformer()).TransformFromStorage(
		context.WithValue(context.Background(), called{}, q), []byte("data"), value.DefaultContext("/registry/pods/a/b"))
	seen = append(seen, fmt.Sprintf("%q %v", data, err))
	w, err := s.Watch(context.Background(), "/pods", storage.ListOptions{})
	if err != nil {
		return took(began, append(seen, err.Error()))
	}
	defer w.Stop()
	synctest.Wait()
	for _, r := range i.inForce(Storage) { // as Inject does
		if a, ok := r.action.(streamAction); ok && a.atOnce() {
			i.sweep(r)
		}
	}
	synctest.Wait()
	select {
	case e, open := <-w.ResultChan():
		seen = append(seen, fmt.Sprint(e.Type, open))
	default:
	}
	return took(began, seen)
}

// noEtcd answers each read.
type noEtcd struct{ clientv3.KV }

func (noEtcd) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return nil, nil
}

func probeEtcd(i *Injector) string {
	client := &clientv3.Client{KV: noEtcd{}}
	i.Etcd(schema.GroupResource{Resource: "pods"}, client)
	began := time.Now()
	_, err := client.Get(context.Background(), "/registry/pods/a/b")
	return took(began, err)
}

type answered struct{}

func (answered) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK}, nil
}

func probeWebhook(i *Injector) string {
	began := time.Now()
	resp, err := i.RoundTripper(answered{}).RoundTrip(httptest.NewRequest(http.MethodPost, "/validate", nil))
	if err != nil {
		return took(began, err)
	}
	return took(began, resp.StatusCode)
}

func probeClock(i *Injector) string { return took(time.Now(), i.Now().Round(time.Minute)) }
