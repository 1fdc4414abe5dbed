// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/controllers"
	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/internal/specs"
)

// patience bounds a wait. kube-controller-manager waits by itself for some of it.
const patience = 2 * time.Minute

// The controllers under test are ours, or those of a real kube-controller-manager: the specs state what both do, and the real
// one is right.
var (
	env      *envtest.Environment
	api      client.Client // reads from the API server
	injector = faults.New()
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // what the server's libraries log hides what the tests say
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "envtest/controllers")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	env, _, _ = specs.Environment(ctx, envtest.Options{Controllers: chosen(controllers.Names()...), Faults: injector})
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	kinds := runtime.NewScheme()
	Expect(scheme.AddToScheme(kinds)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(kinds)).To(Succeed())
	Expect(apiregistrationv1.AddToScheme(kinds)).To(Succeed())
	var err error
	api, err = client.New(env.Config(), client.Options{Scheme: kinds})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(time.Minute))

// newNamespace makes a namespace for one spec.
func newNamespace(ctx context.Context) *corev1.Namespace {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(api.Create(ctx, ns)).To(Succeed())
	return ns
}

// configMap returns a ConfigMap.
func configMap(namespace, name string, finalizers ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}}
}

// letGo takes away the finalizers of an object.
func letGo(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	Expect(api.Patch(ctx, obj, patch)).To(Succeed())
}

// gone returns a function that reports whether an object, or one in its place with another UID, is all that is left.
func gone(ctx context.Context, obj client.Object) func() error {
	uid := obj.GetUID()
	return func() error {
		now := obj.DeepCopyObject().(client.Object)
		err := api.Get(ctx, client.ObjectKeyFromObject(obj), now)
		if apierrors.IsNotFound(err) || err == nil && uid != "" && now.GetUID() != uid {
			return nil
		}
		if err == nil {
			err = stillThere(now)
		}
		return err
	}
}
