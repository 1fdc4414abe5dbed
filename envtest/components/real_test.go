// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package components_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/components"
)

// patience is how long a test waits for a real program, which waits for seconds here and there.
const patience = 2 * time.Minute

// requireReal skips a test if the real programs are not among the assets. With TARN_REQUIRE_REAL=true it fails then.
func requireReal(t *testing.T) {
	t.Helper()
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if _, err := exec.LookPath(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name)); err != nil {
			if os.Getenv("TARN_REQUIRE_REAL") == "true" {
				t.Fatal(err)
			}
			t.Skipf("there is no %s in the folder of KUBEBUILDER_ASSETS: go run ./envtest/cmd/assets -controller-manager -scheduler", name)
		}
	}
}

// cluster is an environment with the real programs and one node, of which the test is the kubelet.
type cluster struct {
	*WithT
	client.Client
	ctx context.Context
}

func newCluster(t *testing.T) *cluster {
	requireReal(t)
	env := envtest.StartWith(t, envtest.Options{Controllers: []envtest.Controller{
		components.ControllerManager(components.Options{}), components.Scheduler(components.Options{}),
	}})
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	c, err := client.New(env.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	all := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	g.Expect(c.Create(t.Context(), node)).To(Succeed())
	node.Status = corev1.NodeStatus{
		Capacity: all, Allocatable: all,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
	}
	g.Expect(c.Status().Update(t.Context(), node)).To(Succeed())
	return &cluster{g, c, t.Context()}
}

// scheduled waits until so many Pods with a label are on the node and have no phase but Pending, and returns them.
func (c *cluster) scheduled(app string, count int) []corev1.Pod {
	var found []corev1.Pod
	c.Eventually(func(g Gomega) {
		list := &corev1.PodList{}
		g.Expect(c.List(c.ctx, list, client.InNamespace("default"), client.MatchingLabels{"app": app})).To(Succeed())
		found = nil
		for _, p := range list.Items {
			if p.Spec.NodeName == "node" && p.Status.Phase == corev1.PodPending {
				found = append(found, p)
			}
		}
		g.Expect(found).To(HaveLen(count))
	}).Should(Succeed())
	return found
}

// is gives a Pod a phase, as a kubelet does.
func (c *cluster) is(p *corev1.Pod, phase corev1.PodPhase, ready corev1.ConditionStatus) {
	now := p.DeepCopy()
	now.Status.Phase = phase
	now.Status.Conditions = append(now.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()})
	c.Expect(c.Status().Patch(c.ctx, now, client.MergeFrom(p))).To(Succeed())
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
}

func TestADeploymentBecomesAvailable(t *testing.T) {
	c := newCluster(t)
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("web")},
	}
	c.Expect(c.Create(c.ctx, web)).To(Succeed())
	for _, p := range c.scheduled("web", 2) {
		c.is(&p, corev1.PodRunning, corev1.ConditionTrue)
	}
	c.Eventually(func() (int32, error) {
		err := c.Get(c.ctx, client.ObjectKeyFromObject(web), web)
		return web.Status.AvailableReplicas, err
	}).Should(BeEquivalentTo(2))
}

func TestAJobRepeatsAPodThatFailed(t *testing.T) {
	c := newCluster(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "once"}, Spec: batchv1.JobSpec{Template: template("once")}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	c.Expect(c.Create(c.ctx, job)).To(Succeed())
	first := c.scheduled("once", 1)[0]
	c.is(&first, corev1.PodFailed, corev1.ConditionFalse)
	second := c.scheduled("once", 1)[0] // after a pause of some seconds
	c.Expect(second.Name).NotTo(Equal(first.Name))
	c.is(&second, corev1.PodSucceeded, corev1.ConditionFalse)
	c.Eventually(func(g Gomega) {
		g.Expect(c.Get(c.ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		g.Expect([]int32{job.Status.Failed, job.Status.Succeeded}).To(Equal([]int32{1, 1}))
	}).Should(Succeed())
}

func TestAnUnknownControllerIsSaid(t *testing.T) {
	requireReal(t)
	env := envtest.Start(t)
	c := components.ControllerManager(components.Options{Controllers: []string{"no-such-controller"}})
	if c.Err != nil {
		t.Fatal(c.Err)
	}
	NewWithT(t).Expect(c.Run(t.Context(), env.Config())).To(MatchError(ContainSubstring("no-such-controller")))
}
