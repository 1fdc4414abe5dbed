// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/nodes"
	"github.com/tarn-dev/tarn/internal/specs"
)

// patience bounds a wait.
const patience = 2 * time.Minute

// Most specs share an environment with two nodes; each has a namespace of its own.
var (
	env      *envtest.Environment
	api      client.Client // reads from the API server
	injector = faults.New()
	machines = nodes.New(nodes.Options{
		Count: 2, Name: "machine", Schedule: true, RestartDelay: time.Millisecond,
		Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"disk": "fast"}}},
	})
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // what the server's libraries log hides what the tests say
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestNodes(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "envtest/nodes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	env, _, api = specs.Environment(ctx, envtest.Options{Controllers: []envtest.Controller{machines.Controller()}, Faults: injector})
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
}, NodeTimeout(patience))

// newNamespace makes a namespace for one spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(api.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

// newPod returns a Pod with one container, which a function may change.
func newPod(namespace string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// with sets the restart policy.
func with(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

// create creates a Pod in the shared environment, and returns a function that reads it.
func create(ctx context.Context, p *corev1.Pod) func() *corev1.Pod {
	GinkgoHelper()
	return createAt(ctx, api, p)
}

// createAt creates a Pod at some server, and returns a function that reads it: nil if it is not there.
func createAt(ctx context.Context, server client.Client, p *corev1.Pod) func() *corev1.Pod {
	GinkgoHelper()
	Expect(server.Create(ctx, p)).To(Succeed())
	return func() *corev1.Pod {
		now := &corev1.Pod{}
		if server.Get(ctx, client.ObjectKeyFromObject(p), now) != nil {
			return nil
		}
		return now
	}
}

// inject injects a failure for the Pods of one namespace, until the spec ends.
func inject(namespace string, f nodes.Failure, times int) *nodes.Fault {
	GinkgoHelper()
	fault, err := machines.Inject(nodes.Rule{Namespace: namespace, Times: times}, f)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(fault.End)
	return fault
}

// happens waits until a fault has happened so often.
func happens(ctx context.Context, fault interface {
	Wait(ctx context.Context, n int) error
}, times int) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	Expect(fault.Wait(ctx, times)).To(Succeed())
}

// ready says whether a Pod runs, and is ready.
func ready(p *corev1.Pod) bool {
	return phase(p) == corev1.PodRunning && conditions(p)[corev1.PodReady] == corev1.ConditionTrue
}

// conditions returns the conditions of a Pod.
func conditions(p *corev1.Pod) map[corev1.PodConditionType]corev1.ConditionStatus {
	all := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range p.Status.Conditions {
		all[c.Type] = c.Status
	}
	return all
}

// phase returns the phase of a Pod.
func phase(p *corev1.Pod) corev1.PodPhase {
	if p == nil {
		return ""
	}
	return p.Status.Phase
}

// waits returns why the first container of a Pod waits.
func waits(p *corev1.Pod) string {
	if p == nil || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
		return ""
	}
	return p.Status.ContainerStatuses[0].State.Waiting.Reason
}
