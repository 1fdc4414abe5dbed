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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/components"
	"github.com/tarn-dev/tarn/envtest/nodes"
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

// cluster is an environment with the real programs and a node, whose Pods run.
type cluster struct {
	*WithT
	client.Client
	ctx      context.Context
	machines *nodes.Nodes
}

func newCluster(t *testing.T) *cluster {
	requireReal(t)
	machines := nodes.New(nodes.Options{})
	env := envtest.StartWith(t, envtest.Options{Controllers: []envtest.Controller{
		components.ControllerManager(components.Options{}), components.Scheduler(components.Options{}), machines.Controller(),
	}})
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	c, err := client.New(env.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	return &cluster{g, c, t.Context(), machines}
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
	c.Eventually(func() (int32, error) {
		err := c.Get(c.ctx, client.ObjectKeyFromObject(web), web)
		return web.Status.AvailableReplicas, err
	}).Should(BeEquivalentTo(2))
}

func TestAJobRepeatsAPodThatFailed(t *testing.T) {
	c := newCluster(t)
	crash, err := c.machines.Inject(nodes.Rule{Labels: map[string]string{"app": "once"}, Times: 1}, nodes.Crash(1))
	c.Expect(err).NotTo(HaveOccurred())
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "once"}, Spec: batchv1.JobSpec{Template: template("once")}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	c.Expect(c.Create(c.ctx, job)).To(Succeed())
	c.Eventually(func(g Gomega) { // after a pause of some seconds
		g.Expect(c.Get(c.ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		g.Expect([]int32{job.Status.Failed, job.Status.Succeeded}).To(Equal([]int32{1, 1}))
	}).Should(Succeed())
	c.Expect(crash.Hits()).To(Equal(1))
}

func TestADaemonSetRunsOnTheNode(t *testing.T) {
	c := newCluster(t)
	agents := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: template("agent")},
	}
	c.Expect(c.Create(c.ctx, agents)).To(Succeed())
	c.Eventually(func() (int32, error) {
		err := c.Get(c.ctx, client.ObjectKeyFromObject(agents), agents)
		return agents.Status.NumberAvailable, err
	}).Should(BeEquivalentTo(1))
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
