// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// bug is something that the author of an operator has overlooked.
type bug string

const (
	noBug bug = "no bug"
	// staleRead believes the cache when it says that there is no Pod, and has the server make up its name.
	staleRead bug = "a stale read"
	// writtenTwice appends to a journal, and notes elsewhere that it has.
	writtenTwice bug = "a write that is not idempotent"
	// lostEvent removes the Pod of an app when it is told that the app was deleted, and has no finalizer.
	lostEvent bug = "a lost event"
)

const (
	appLabel  = "example/app"      // of ConfigMaps that are apps, and of their Pods: the name of the app
	recorded  = "example/recorded" // of an app: the version that is in the journal, for writtenTwice
	finalizer = "example/pods"
	version   = "version" // the key of an app's data
	journal   = "journal" // the ConfigMap that has all versions of all apps
)

// operator runs each app, which is a ConfigMap with a version, in a Pod, and writes a journal of the versions.
type operator struct {
	client.Client               // reads from the cache
	live          client.Reader // reads from the server
	bug           bug
}

// operate runs the operator until ctx ends.
func operate(ctx context.Context, cfg *rest.Config, b bug) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache: cache.New,
		Cache:    cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: apps()}}},
		// Several of them run at once, in one process.
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Logger:     logr.Discard(),
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(&operator{mgr.GetClient(), mgr.GetAPIReader(), b})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func apps() labels.Selector {
	has, err := labels.Parse(appLabel)
	if err != nil {
		panic(err) // a constant
	}
	return has
}

// Reconcile implements reconcile.Reconciler.
func (o *operator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &corev1.ConfigMap{}
	err := o.Get(ctx, req.NamespacedName, app)
	switch {
	case apierrors.IsNotFound(err) && o.bug == lostEvent:
		return ctrl.Result{}, o.deletePods(ctx, req.Namespace, req.Name)
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	case !app.DeletionTimestamp.IsZero():
		return ctrl.Result{}, o.tearDown(ctx, app)
	case o.bug != lostEvent && controllerutil.AddFinalizer(app, finalizer):
		return ctrl.Result{}, o.Update(ctx, app) // its event brings us back
	}
	record := o.record
	if o.bug == writtenTwice {
		record = o.appendRecord
	}
	if err := record(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	return o.runPod(ctx, app)
}

// runPod lets the app run in its version.
func (o *operator) runPod(ctx context.Context, app *corev1.ConfigMap) (ctrl.Result, error) {
	pods := &corev1.PodList{}
	if err := o.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingLabels{appLabel: app.Name}); err != nil {
		return ctrl.Result{}, err
	}
	if len(pods.Items) == 0 {
		pod := podOf(app)
		if o.bug == staleRead {
			pod.Name, pod.GenerateName = "", app.Name+"-"
			return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, o.Create(ctx, pod) // and see whether it runs
		}
		return ctrl.Result{}, o.Create(ctx, pod) // if there is one, it fails, and we look again
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if image := podOf(app).Spec.Containers[0].Image; pod.Spec.Containers[0].Image != image {
			pod.Spec.Containers[0].Image = image
			return ctrl.Result{}, o.Update(ctx, pod)
		}
	}
	return ctrl.Result{}, nil
}

// tearDown removes what an app has, and lets the app go.
func (o *operator) tearDown(ctx context.Context, app *corev1.ConfigMap) error {
	if err := o.deletePods(ctx, app.Namespace, app.Name); err != nil || !controllerutil.RemoveFinalizer(app, finalizer) {
		return err
	}
	return client.IgnoreNotFound(o.Update(ctx, app))
}

func (o *operator) deletePods(ctx context.Context, namespace, app string) error {
	return o.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{appLabel: app})
}

// record writes the version of an app into the journal: a second time it changes nothing.
func (o *operator) record(ctx context.Context, app *corev1.ConfigMap) error {
	line := app.Name + "." + app.Data[version]
	return o.write(ctx, app.Namespace, func(data map[string]string) bool {
		_, there := data[line]
		data[line] = "ran"
		return !there
	})
}

// appendRecord appends the version of an app to the journal, unless a note at the app says that it is there.
func (o *operator) appendRecord(ctx context.Context, app *corev1.ConfigMap) error {
	if app.Annotations[recorded] == app.Data[version] {
		return nil
	}
	err := o.write(ctx, app.Namespace, func(data map[string]string) bool {
		data[app.Name] += app.Data[version] + " ran. "
		return true
	})
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, recorded, app.Data[version])
	return o.Update(ctx, app)
}

// write changes the journal, if change says so.
func (o *operator) write(ctx context.Context, namespace string, change func(data map[string]string) bool) error {
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: journal}}
	err := o.live.Get(ctx, client.ObjectKeyFromObject(found), found)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("read the journal: %w", err)
	}
	if found.Data == nil {
		found.Data = map[string]string{}
	}
	switch {
	case !change(found.Data):
		return nil
	case missing:
		return o.Create(ctx, found)
	}
	return o.Update(ctx, found)
}

func podOf(app *corev1.ConfigMap) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: map[string]string{appLabel: app.Name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/" + app.Name + ":" + app.Data[version]}}},
	}
}
