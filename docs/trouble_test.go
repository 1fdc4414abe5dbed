// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test does what pages describe and no other test does.
package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
)

const troublePage = "when-something-is-wrong.md"

// TestWhenSomethingIsWrong does what the page describes, and compares what is seen
// with the blocks of the page, but for line breaks and ports.
func TestWhenSomethingIsWrong(t *testing.T) {
	page, err := os.ReadFile(troublePage)
	if err != nil {
		t.Fatal(err)
	}
	seen := controllerRuntimeLog()
	for name, trouble := range map[string]func(*testing.T, *lineLog) string{
		"forbidden":            forbidden,
		"forbidden in manager": forbiddenInManager,
		"absent":               absent,
		"deleted":              deleted,
		"does not fit":         doesNotFit,
		"does not fit later":   doesNotFitLater,
		"transform":            transformFails,
		"transform in list":    transformFailsInList,
		"index function":       indexFunctionFails,
		"gone":                 gone,
	} {
		t.Run(name, func(t *testing.T) {
			_, after, found := strings.Cut(string(page), "<!-- seen: "+name+" -->\n```text\n")
			block, _, closed := strings.Cut(after, "```")
			if !found || !closed {
				t.Errorf("%s has no block for %s", troublePage, name)
			}
			seen.clear()
			if want, got := oneLine(block), oneLine(trouble(t, seen)); want != got {
				t.Errorf("%s says\n%s\nand this was seen:\n%s", troublePage, want, got)
			}
		})
	}
}

var (
	port     = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	attempts = regexp.MustCompile(`\(\d+ attempts? since \S+\)`)
)

// oneLine leaves out what differs from run to run, and line breaks.
func oneLine(text string) string {
	text = port.ReplaceAllString(strings.Join(strings.Fields(text), " "), "127.0.0.1:PORT")
	return attempts.ReplaceAllString(text, "(N attempts since TIME)")
}

// started makes a cache that runs until the test ends.
func started(t *testing.T, cfg *rest.Config, opts cache.Options) cache.Cache {
	t.Helper()
	c, err := cache.New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache has not started")
	}
	return c
}

// untilItFails returns a context that ends as if its deadline were over when an
// informer with the returned handler has failed to list or to watch.
func untilItFails(t *testing.T) (context.Context, toolscache.WatchErrorHandlerWithContext) {
	ctx, end := context.WithCancelCause(t.Context())
	return ctx, func(handling context.Context, r *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(handling, r, err)
		end(context.DeadlineExceeded)
	}
}

// direct returns a client that reads from the API server.
func direct(t *testing.T, env *envtest.Environment) client.Client {
	t.Helper()
	c, err := client.New(env.Config(), client.Options{Scheme: things(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func forbidden(t *testing.T, seen *lineLog) string {
	env := envtest.Start(t)
	jane, err := env.AddUser("jane")
	must(t, err)
	ctx, failed := untilItFails(t)
	c := started(t, jane, cache.Options{DefaultWatchErrorHandler: failed})
	err = c.List(ctx, &corev1.PodList{})
	out := fmt.Sprintf("error: %v\nlog: %s", err, seen)
	var reason *cache.NotSyncedError
	if errors.As(err, &reason) && reason.Cause == cache.Forbidden {
		fmt.Println(reason.Manifest())
	}

	// With the rights the informer goes on by itself, and so does a read that waits.
	admin := direct(t, env)
	must(t, admin.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}},
	}))
	must(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "pods"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
	}))
	must(t, c.List(t.Context(), &corev1.PodList{}))
	return out
}

func forbiddenInManager(t *testing.T, _ *lineLog) string {
	jane, err := envtest.Start(t).AddUser("jane")
	must(t, err)
	newCache := cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{
		&corev1.Node{}: {OnFailure: cache.Isolate},
	}})
	isolated, err := newCache(jane, cache.Options{})
	must(t, err)
	must(t, isolated.IndexField(t.Context(), &corev1.Node{}, "spec.podCIDR", func(client.Object) []string { return nil }))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- isolated.Start(ctx) }()
	if !isolated.WaitForCacheSync(t.Context()) {
		t.Error("an isolated kind keeps the others waiting")
	}
	stop()
	must(t, <-ended)
	mgr, err := ctrl.NewManager(jane, ctrl.Options{NewCache: cache.New, Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	must(t, mgr.AddReadyzCheck("cache", cache.Ready(mgr.GetCache())))
	must(t, mgr.AddHealthzCheck("cache", cache.Live(mgr.GetCache())))
	nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	must(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).
		WithOptions(controller.Options{CacheSyncTimeout: time.Second, SkipNameValidation: ptr.To(true)}).Complete(nothing))
	return fmt.Sprintf("error: %v", mgr.Start(t.Context()))
}

func absent(t *testing.T, _ *lineLog) string {
	env := envtest.Start(t)
	c := started(t, env.Config(), cache.Options{Scheme: things(t)})
	return fmt.Sprintf("error: %v", c.List(t.Context(), &thingList{}))
}

func deleted(t *testing.T, seen *lineLog) string {
	env := envtest.StartWith(t, envtest.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{thingCRD()}})
	admin := direct(t, env)
	must(t, admin.Create(t.Context(), newThing("first", "")))
	ctx, failed := untilItFails(t)
	c := started(t, env.Config(), cache.Options{Scheme: things(t), DefaultWatchErrorHandler: failed})
	before, after := &thingList{}, &thingList{}
	must(t, c.List(t.Context(), before))
	added := make(chan string, 2)
	informer, err := c.GetInformer(t.Context(), &thing{})
	must(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added <- obj.(*thing).Name }})
	must(t, err)

	must(t, admin.Delete(t.Context(), thingCRD()))
	<-ctx.Done()
	must(t, c.List(t.Context(), after))
	must(t, env.InstallCRDs(t.Context(), thingCRD()))
	must(t, admin.Create(t.Context(), newThing("second", "")))
	if first, second := <-added, <-added; first != "first" || second != "second" {
		t.Errorf("the handler was told of %s and %s", first, second)
	}
	return fmt.Sprintf("before: %d objects\nafter: %d objects\nlog: %s", len(before.Items), len(after.Items), seen)
}

func doesNotFit(t *testing.T, seen *lineLog) string {
	env := envtest.StartWith(t, envtest.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{thingCRD()}})
	must(t, direct(t, env).Create(t.Context(), newThing("first", "large")))
	ctx, failed := untilItFails(t)
	c := started(t, env.Config(), cache.Options{Scheme: things(t), DefaultWatchErrorHandler: failed})
	return fmt.Sprintf("error: %v\nlog: %s", c.List(ctx, &thingList{}), seen)
}

func doesNotFitLater(t *testing.T, seen *lineLog) string {
	env := envtest.StartWith(t, envtest.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{thingCRD()}})
	ctx, failed := untilItFails(t)
	c := started(t, env.Config(), cache.Options{Scheme: things(t), DefaultWatchErrorHandler: failed})
	list := &thingList{}
	must(t, c.List(t.Context(), list))
	admin := direct(t, env)
	must(t, admin.Create(t.Context(), newThing("first", "large")))
	<-ctx.Done()
	must(t, admin.Create(t.Context(), newThing("second", "")))
	must(t, c.List(t.Context(), list))
	return fmt.Sprintf("objects: %d\nlog: %s", len(list.Items), seen)
}

// notToday is a transform that fails for one object.
func notToday(obj any) (any, error) {
	if obj.(client.Object).GetName() == "kube-public" {
		return nil, errors.New("not today")
	}
	return obj, nil
}

func transformFails(t *testing.T, seen *lineLog) string {
	c := started(t, envtest.Start(t).Config(), cache.Options{DefaultTransform: notToday})
	err := c.Get(t.Context(), client.ObjectKey{Name: "kube-public"}, &corev1.Namespace{})
	return fmt.Sprintf("error: %v\nlog: %s", err, seen)
}

func transformFailsInList(t *testing.T, seen *lineLog) string {
	ctx, failed := untilItFails(t)
	c := started(t, envtest.Start(t).Config(), cache.Options{
		DefaultTransform: notToday, DefaultEnableWatchBookmarks: ptr.To(false), DefaultWatchErrorHandler: failed,
	})
	err := c.Get(ctx, client.ObjectKey{Name: "kube-public"}, &corev1.Namespace{})
	return fmt.Sprintf("error: %v\nlog: %s", err, seen)
}

func indexFunctionFails(t *testing.T, _ *lineLog) string {
	utilruntime.ReallyCrash = false
	t.Cleanup(func() { utilruntime.ReallyCrash = true }) // after the cleanups of what follows
	c := started(t, envtest.Start(t).Config(), cache.Options{})
	must(t, c.IndexField(t.Context(), &corev1.Namespace{}, "spec.team", func(obj client.Object) []string {
		if obj.GetName() != "kube-public" {
			return nil
		}
		return []string{strings.Fields(obj.GetAnnotations()["teams"])[0]}
	}))
	must(t, c.List(t.Context(), &corev1.NamespaceList{}))
	return fmt.Sprintf("error: %v", cache.NotSynced(c)[0])
}

func gone(t *testing.T, _ *lineLog) string {
	env := envtest.Start(t)
	cfg := env.Config()
	connections, err := rest.HTTPClientFor(cfg)
	must(t, err)
	c := started(t, cfg, cache.Options{HTTPClient: connections})
	namespaces := &corev1.NamespaceList{}
	must(t, c.List(t.Context(), namespaces))
	must(t, env.Stop())
	// A request on a connection whose end the client has not noticed yet fails otherwise.
	for !errors.Is(err, syscall.ECONNREFUSED) {
		must(t, t.Context().Err())
		var response *http.Response
		if response, err = connections.Get(cfg.Host); err == nil {
			must(t, response.Body.Close())
		}
	}
	must(t, c.List(t.Context(), namespaces))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return fmt.Sprintf("error: %v", c.List(ctx, &corev1.PodList{}))
}

// TestLogsGoWhereTheyAreSent shows how the lines of the page can be kept out of the
// log, or brought into it.
func TestLogsGoWhereTheyAreSent(t *testing.T) {
	seen := &lineLog{}
	klog.SetLogger(logr.New(seen))
	t.Cleanup(klog.ClearLogger) // when the server has stopped
	jane, err := envtest.Start(t).AddUser("jane")
	must(t, err)
	if seen.String() == "" {
		t.Error("the server has logged nothing through klog")
	}

	logged := controllerRuntimeLog()
	logged.clear()
	failed := make(chan error, 100)
	opts := cache.Options{}
	opts.DefaultWatchErrorHandler = func(_ context.Context, _ *toolscache.Reflector, err error) {
		failed <- err
	}
	_, err = started(t, jane, opts).GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	must(t, err)
	if err := <-failed; !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the handler was told of %v", err)
	}
	if text := logged.String() + seen.String(); strings.Contains(text, "forbidden") {
		t.Errorf("the log has %s", text)
	}
}

// thing is a custom resource whose size is a number in Go and a string in the CRD.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              int `json:"size"`
}

func (t *thing) DeepCopyObject() runtime.Object {
	return &thing{TypeMeta: t.TypeMeta, ObjectMeta: *t.ObjectMeta.DeepCopy(), Size: t.Size}
}

type thingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []thing `json:"items"`
}

func (t *thingList) DeepCopyObject() runtime.Object {
	c := &thingList{TypeMeta: t.TypeMeta, ListMeta: *t.ListMeta.DeepCopy()}
	for _, item := range t.Items {
		c.Items = append(c.Items, *item.DeepCopyObject().(*thing))
	}
	return c
}

var thingsV1 = schema.GroupVersion{Group: "example.com", Version: "v1"}

// things returns a scheme with everything that this file needs.
func things(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme} {
		must(t, add(scheme))
	}
	scheme.AddKnownTypeWithName(thingsV1.WithKind("Thing"), &thing{})
	scheme.AddKnownTypeWithName(thingsV1.WithKind("ThingList"), &thingList{})
	metav1.AddToGroupVersion(scheme, thingsV1)
	return scheme
}

// newThing returns a Thing. It fits the Go type only without a size.
func newThing(name, size string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if size != "" {
		obj.Object["size"] = size
	}
	obj.SetGroupVersionKind(thingsV1.WithKind("Thing"))
	obj.SetNamespace("default")
	obj.SetName(name)
	return obj
}

func thingCRD() *apiextensionsv1.CustomResourceDefinition {
	size := apiextensionsv1.JSONSchemaProps{Type: "string"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: thingsV1.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: thingsV1.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": size},
				}},
			}},
		},
	}
}
