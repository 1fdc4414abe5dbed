// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/internal/specs"
)

// oracleVariable names a kubeconfig of a real kube-apiserver. The specs then run against it: they state how an API server
// behaves, and the real one is right.
const oracleVariable = "TARN_ORACLE_KUBECONFIG"

// patience bounds a wait that normally takes milliseconds.
const patience = 20 * time.Second

// fast is for waits on what the server does in the background and tells nobody about.
const fast = 2 * time.Millisecond

// target is the server that the specs talk to.
var target struct {
	env    *envtest.Environment // nil with the oracle
	config *rest.Config
	kube   kubernetes.Interface
	dyn    dynamic.Interface
}

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // what the server's libraries log hides what the tests say
	log.SetLogger(logr.Discard())
	RegisterFailHandler(Fail) // also for what plain tests use of the suite
	os.Exit(m.Run())
}

func TestEnvtest(t *testing.T) {
	specs.Run(t, "envtest", []string{"etcd_external_test.go"}, []string{"etcd_servers_test.go"}) // they wait for elections and time-outs of etcd
}

var _ = BeforeSuite(func(ctx SpecContext) {
	before := goleak.IgnoreCurrent()
	if path := os.Getenv(oracleVariable); path != "" {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		Expect(err).NotTo(HaveOccurred(), oracleVariable+" names no kubeconfig")
		config.QPS = -1
		target.config = config
	} else {
		target.env = envtest.New(envtest.Options{EnableAdmissionPlugins: []string{ownerPlugin}})
		Expect(target.env.Start(ctx)).To(Succeed())
		DeferCleanup(func() {
			Expect(target.env.Stop()).To(Succeed())
			// The specs used every feature: nothing of them may be left.
			if clustered.Load() { // members of etcd end later than they say
				Eventually(func() error { return goleak.Find(before, killedMember) }).WithTimeout(patience).Should(Succeed())
				return
			}
			Expect(goleak.Find(before)).To(Succeed())
		})
		target.config = target.env.Config()
	}
	target.kube = kubernetes.NewForConfigOrDie(target.config)
	target.dyn = dynamic.NewForConfigOrDie(target.config)
}, NodeTimeout(time.Minute))

// onlyOurs skips a spec that is about the environment and not about its API.
func onlyOurs() {
	if target.env == nil {
		Skip("about the environment: there is none with " + oracleVariable)
	}
}

// newNamespace makes a namespace for one spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns, err := target.kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_ = target.kube.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}) // some specs delete it themselves
	})
	return ns.Name
}

// configMap returns a ConfigMap with one key.
func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"value": value}},
		Data:       map[string]string{"key": value},
	}
}

// createConfigMaps makes ConfigMaps cm-0, cm-1 and so on.
func createConfigMaps(ctx context.Context, namespace string, n int) []*corev1.ConfigMap {
	GinkgoHelper()
	var made []*corev1.ConfigMap
	for i := range n {
		cm, err := target.kube.CoreV1().ConfigMaps(namespace).Create(ctx,
			configMap(fmt.Sprintf("cm-%d", i), fmt.Sprint(i)), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		made = append(made, cm)
	}
	return made
}

// pod returns a Pod that every server accepts.
func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/image:1"}}},
	}
}

// next returns the next event of a watch.
func next(ctx context.Context, w watch.Interface) watch.Event {
	GinkgoHelper()
	select {
	case event, ok := <-w.ResultChan():
		Expect(ok).To(BeTrue(), "the watch ended")
		return event
	case <-ctx.Done():
		Fail("no event: " + context.Cause(ctx).Error())
		return watch.Event{}
	}
}

// until returns the first event that matches.
func until(ctx context.Context, w watch.Interface, matches func(watch.Event) bool) watch.Event {
	GinkgoHelper()
	for {
		if event := next(ctx, w); matches(event) {
			return event
		}
	}
}
