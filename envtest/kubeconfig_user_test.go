// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
)

// TestAUserHasAKubeconfig starts a client from the file alone, as kubectl does.
func TestAUserHasAKubeconfig(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env := envtest.Start(t)
	admin, err := client.New(env.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	jane, err := env.AddUser("jane", "writers")
	g.Expect(err).NotTo(HaveOccurred())
	writers := metav1.ObjectMeta{Namespace: "default", Name: "writers"}
	g.Expect(admin.Create(ctx, &rbacv1.Role{ObjectMeta: writers, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}}})).To(Succeed())
	g.Expect(admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: writers, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writers"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "writers"}},
	})).To(Succeed())

	path := filepath.Join(t.TempDir(), "jane.kubeconfig")
	g.Expect(envtest.WriteKubeConfig(path, jane)).To(Succeed())
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
	g.Expect(envtest.WriteKubeConfig(path, jane)).To(MatchError(fs.ErrExist), "no file is replaced")
	g.Expect(envtest.WriteKubeConfig(filepath.Join(t.TempDir(), "other"), nil)).To(MatchError(ContainSubstring("nil")))

	config, err := clientcmd.BuildConfigFromFlags("", path)
	g.Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error { // the server learns of roles by a watch
		_, err := clients.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hers"}}, metav1.CreateOptions{})
		return err
	}).WithContext(ctx).WithTimeout(patience).WithPolling(fast).Should(Succeed())
	_, err = clients.CoreV1().ConfigMaps("kube-system").List(ctx, metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring(`"jane"`)))
}
