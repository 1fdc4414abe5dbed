// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"context"
	"reflect"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind = corev1.SchemeGroupVersion.WithKind("Node")
)

// filled is a store under test, and how a test writes into it.
type filled interface {
	AddIndexers(toolscache.Indexers) error
	reads() store.Store
	put(obj any)
	remove(obj metav1.Object)
	replace(objects []client.Object, version int)
}

// stores makes each of the stores; all must give the same answers.
var stores = map[string]func(g *WithT, example client.Object, fields *index.Fields) filled{
	"indexer": func(g *WithT, _ client.Object, fields *index.Fields) filled {
		s := indexerStore{WithT: g, Indexer: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
			toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
		})}
		s.reader = store.NewIndexer(s.Indexer, fields)
		return s
	},
	"flat engine": func(g *WithT, example client.Object, _ *index.Fields) filled {
		return newEngineStore(g, example, false)
	},
	"decoded engine": func(g *WithT, example client.Object, _ *index.Fields) filled {
		return newEngineStore(g, example, true)
	},
}

type indexerStore struct {
	*WithT
	toolscache.Indexer
	reader store.Store
}

func (s indexerStore) reads() store.Store       { return s.reader }
func (s indexerStore) put(obj any)              { s.Expect(s.Update(obj)).To(Succeed()) }
func (s indexerStore) remove(obj metav1.Object) { s.Expect(s.Delete(obj)).To(Succeed()) }
func (s indexerStore) replace(objects []client.Object, version int) {
	list := make([]any, len(objects))
	for i, obj := range objects {
		list[i] = obj
	}
	s.Expect(s.Replace(list, strconv.Itoa(version))).To(Succeed())
}

// engineStore writes into an engine as an informer does.
type engineStore struct {
	*WithT
	form   *object.Form
	engine *watchcache.Engine[object.Object, struct{}]
	reader *store.Engine
}

func newEngineStore(g *WithT, example client.Object, decoded bool) engineStore {
	s := engineStore{WithT: g, form: object.NewForm(object.Options{Type: reflect.TypeOf(example), Decoded: decoded, Verify: true})}
	g.Expect(s.form.Reason()).NotTo(HaveOccurred())
	s.engine = watchcache.New[object.Object, struct{}](watchcache.Options[object.Object]{
		Window: 16, Values: informer.Values(s.form),
	})
	s.reader = store.NewEngine(s.engine, s.form, clock.RealClock{})
	return s
}

func (s engineStore) reads() store.Store                    { return s.reader }
func (s engineStore) AddIndexers(toolscache.Indexers) error { panic("an engine has fields") }
func (s engineStore) item(obj any) watchcache.Item[object.Object] {
	kept := s.form.Keep(obj)
	version, _ := strconv.ParseUint(kept.ResourceVersion(), 10, 64)
	return watchcache.Item[object.Object]{Key: object.Key(kept.Namespace(), kept.Name()), Revision: version, Value: kept}
}

func (s engineStore) AddField(name string, extract client.IndexerFunc) error {
	s.form.Declare(name, extract)
	s.engine.Rewrite(func(i watchcache.Item[object.Object]) object.Object { return s.form.Retell(i.Value) })
	s.engine.AddIndex(name)
	return nil
}

func (s engineStore) put(obj any) {
	s.engine.Apply(watchcache.Change[object.Object, struct{}]{Item: s.item(obj)})
}

func (s engineStore) remove(obj metav1.Object) {
	version, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	s.engine.Apply(watchcache.Change[object.Object, struct{}]{Deleted: true, Item: watchcache.Item[object.Object]{
		Key: object.Key(obj.GetNamespace(), obj.GetName()), Revision: version,
	}})
}

func (s engineStore) replace(objects []client.Object, version int) {
	items := make([]watchcache.Item[object.Object], len(objects))
	for i, obj := range objects {
		items[i] = s.item(obj)
	}
	s.engine.Replace(items, uint64(version))
}

// fixture is a reader over a store that the test fills.
type fixture struct {
	*reader.CacheReader
	*WithT
	store   filled
	fields  *index.Fields
	context func() context.Context
}

// kind is what a fixture is of.
type kind struct {
	gvk     schema.GroupVersionKind
	scope   meta.RESTScopeName
	share   bool // every read shares with the store
	example client.Object
}

var (
	podsKind  = kind{gvk: podKind, scope: meta.RESTScopeNameNamespace, example: &corev1.Pod{}}
	nodesKind = kind{gvk: nodeKind, scope: meta.RESTScopeNameRoot, example: &corev1.Node{}}
)

func newFixture(t *testing.T, store string, k kind, objects ...client.Object) fixture {
	t.Helper()
	f := fixture{WithT: NewWithT(t), fields: index.NewFields(k.gvk, logr.Discard()), context: t.Context}
	f.store = stores[store](f.WithT, k.example, f.fields)
	f.CacheReader = reader.New(reader.Options{
		Store: f.store.reads(), GVK: k.gvk, Scope: k.scope, Fields: f.fields, DisableDeepCopy: k.share,
	})
	for _, obj := range objects {
		f.store.put(obj)
	}
	return f
}

func (f fixture) Stats() store.Stats { return f.store.reads().Stats() }

func pods(t *testing.T, store string, objects ...client.Object) fixture {
	t.Helper()
	return newFixture(t, store, podsKind, objects...)
}

// onEveryStore runs test with the name of each store.
func onEveryStore(t *testing.T, test func(t *testing.T, store string)) {
	for name := range stores {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

func pod(namespace, name string, version int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{"name": name},
		},
		Spec: corev1.PodSpec{NodeName: "node-of-" + name},
	}
}

func names(list *corev1.PodList) []string {
	found := []string{}
	for _, p := range list.Items {
		found = append(found, p.Namespace+"/"+p.Name)
	}
	return found
}
