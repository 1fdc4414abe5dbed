// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kubebuilder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest/kubebuilder"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	for _, name := range []string{"KUBEBUILDER_ASSETS", "USE_EXISTING_CLUSTER", "TEST_ASSET_KUBE_APISERVER"} {
		_ = os.Unsetenv(name) // these tests are about the server in this process
	}
	os.Exit(m.Run())
}

// TestUse runs what a suite does with its Environment, from Start to Stop.
func TestUse(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "testdata", "crds")}}
	g.Expect(kubebuilder.Use(t, env)).NotTo(BeNil())
	cfg, err := env.Start()
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(env.Stop()).To(Succeed()) }()
	g.Expect(env.CRDs).NotTo(BeEmpty(), "the Environment has installed them")
	admin, err := client.New(cfg, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(admin.List(ctx, &corev1.NamespaceList{})).To(Succeed())

	fromFile, err := clientcmd.RESTConfigFromKubeConfig(env.KubeConfig)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = kubernetes.NewForConfigOrDie(fromFile).CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

// TestAddUser makes users with the Environment's own function, with all that an AuthenticatedUser has.
func TestAddUser(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env := &envtest.Environment{}
	kubebuilder.Use(t, env)
	cfg, err := env.Start()
	g.Expect(err).NotTo(HaveOccurred())
	jane, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, &rest.Config{QPS: 77, Burst: 88})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(jane.Config().QPS).To(BeEquivalentTo(77), "what the base had stays")
	kube := kubernetes.NewForConfigOrDie(jane.Config())
	_, err = kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring(`User "jane"`)))

	_, err = kubernetes.NewForConfigOrDie(cfg).RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(ctx, func() error {
		_, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	}).Should(Succeed())

	data, err := jane.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	fromFile, err := clientcmd.RESTConfigFromKubeConfig(data)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = kubernetes.NewForConfigOrDie(fromFile).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	kubectl, err := jane.Kubectl()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kubectl.Opts).To(HaveLen(1))

	_, err = env.AddUser(envtest.User{}, nil)
	g.Expect(err).To(MatchError(ContainSubstring("name is empty")))
}

// TestUseLeavesAChoiceAlone has runs choose another server.
func TestUseLeavesAChoiceAlone(t *testing.T) {
	for name, value := range map[string]string{
		"KUBEBUILDER_ASSETS": "/somewhere", "TEST_ASSET_KUBE_APISERVER": "/some/file", "USE_EXISTING_CLUSTER": "true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			g, env := NewWithT(t), &envtest.Environment{}
			g.Expect(kubebuilder.Use(t, env)).To(BeNil())
			g.Expect(env.Config).To(BeNil())
			g.Expect(env.UseExistingCluster).To(BeNil())
		})
	}
	g, env := NewWithT(t), &envtest.Environment{UseExistingCluster: ptr.To(true)}
	g.Expect(kubebuilder.Use(t, env)).To(BeNil())
	g.Expect(env.Config).To(BeNil())
}

// fatal is a testing.TB that notes why it was failed.
type fatal struct {
	testing.TB
	why string
}

func (f *fatal) Fatalf(format string, args ...any) {
	f.why = format
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			f.why += err.Error()
		}
	}
	panic(f)
}

// TestUseRefusesWhatHasNoEffect has a suite set a flag of the binary.
func TestUseRefusesWhatHasNoEffect(t *testing.T) {
	g, env, tb := NewWithT(t), &envtest.Environment{}, &fatal{TB: t}
	env.ControlPlane.GetAPIServer().Configure().Append("max-requests-inflight", "7")
	g.Expect(func() { kubebuilder.Use(tb, env) }).To(Panic())
	g.Expect(tb.why).To(ContainSubstring("--max-requests-inflight=7"))
}
