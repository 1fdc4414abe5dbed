// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest"
)

// ownerPlugin is off by default. The suite's environment has it; a real server needs it among its flags.
const ownerPlugin = "OwnerReferencesPermissionEnforcement"

// ownedBy is a ConfigMap with an owner.
func ownedBy(apiVersion, kind string, block *bool) *corev1.ConfigMap {
	cm := configMap("owned", "1")
	cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "1-2-3", BlockOwnerDeletion: block}}
	return cm
}

var _ = Describe("permission to own", func() {
	writes := rbacv1.PolicyRule{Verbs: []string{"create", "get", "update"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	deletes := rbacv1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	finalizes := rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{"apps"}, Resources: []string{"deployments/finalizers"}, ResourceNames: []string{"owner"}}

	create := func(ctx context.Context, namespace, user string, cm *corev1.ConfigMap) error {
		_, err := impersonate(user).CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{})
		return err
	}

	It("is to delete what gets another owner", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		permit(ctx, namespace, "jane", writes)
		cms := impersonate("jane").CoreV1().ConfigMaps(namespace)
		made, err := cms.Create(ctx, ownedBy("apps/v1", "Deployment", nil), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred(), "who creates it could have left it")
		made.Data["key"] = "2"
		made, err = cms.Update(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		made.OwnerReferences[0].Controller = ptr.To(true)
		_, err = cms.Update(ctx, made, metav1.UpdateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v: start a real server with --enable-admission-plugins=%s", err, ownerPlugin)
		Expect(err).To(MatchError(HaveSuffix(`configmaps "owned" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>`)))
		made.OwnerReferences = nil
		_, err = cms.Update(ctx, made, metav1.UpdateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("is to finalize the owner whose deletion it blocks", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		permit(ctx, namespace, "jane", writes, deletes)
		Expect(create(ctx, namespace, "jane", ownedBy("apps/v1", "Deployment", ptr.To(true)))).To(MatchError(
			HaveSuffix("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>")))
		Expect(create(ctx, namespace, "jane", ownedBy("example.com/v1", "Nothing", ptr.To(true)))).To(MatchError(ContainSubstring(
			"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 Kind Nothing: ")))

		By("allowing it for the owner's name")
		other := newNamespace(ctx)
		permit(ctx, other, "joan", writes, deletes, finalizes)
		Expect(create(ctx, other, "joan", ownedBy("apps/v1", "Deployment", ptr.To(true)))).To(Succeed())

		By("changing what is blocked already, and freeing the owner")
		_, err := target.kube.CoreV1().ConfigMaps(namespace).Create(ctx, ownedBy("apps/v1", "Deployment", ptr.To(true)), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred(), "an administrator may finalize anything")
		cms := impersonate("jane").CoreV1().ConfigMaps(namespace)
		owned, err := cms.Get(ctx, "owned", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, block := range []bool{true, false, true} {
			owned.OwnerReferences[0].BlockOwnerDeletion = &block
			owned.OwnerReferences[0].Controller = &block
			changed, err := cms.Update(ctx, owned, metav1.UpdateOptions{})
			if err == nil {
				owned = changed
			} else {
				Expect(err).To(MatchError(ContainSubstring("you can't set finalizers on")))
				Expect(changed.OwnerReferences).To(BeEmpty())
				owned.OwnerReferences = nil // the last round: it is blocked anew
			}
		}
		Expect(owned.OwnerReferences).To(BeEmpty())
	}, SpecTimeout(patience))
})

// TestPluginsAreChosen starts environments with and without plugins.
func TestPluginsAreChosen(t *testing.T) {
	g := NewWithT(t)
	for _, opts := range []envtest.Options{
		{EnableAdmissionPlugins: []string{"NoSuchPlugin"}},
		{DisableAdmissionPlugins: []string{"NoSuchPlugin"}},
		{EnableAdmissionPlugins: []string{"PodNodeSelector"}},
		{EnableAdmissionPlugins: []string{"Priority"}, DisableAdmissionPlugins: []string{"Priority"}},
	} {
		g.Expect(envtest.New(opts).Start(t.Context())).To(MatchError(Or(ContainSubstring("NoSuchPlugin"), ContainSubstring("PodNodeSelector is not in this server"),
			ContainSubstring("[Priority] in enable-admission-plugins and disable-admission-plugins overlapped"))))
	}

	env := envtest.StartWith(t, envtest.Options{DisableAdmissionPlugins: []string{"ResourceQuota", "ServiceAccount"}})
	kube := kubernetes.NewForConfigOrDie(env.Config())
	quota, err := kube.CoreV1().ResourceQuotas("default").Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	quota.Status.Hard, quota.Status.Used = resources("configmaps", "0"), resources("configmaps", "0")
	_, err = kube.CoreV1().ResourceQuotas("default").UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = kube.CoreV1().ConfigMaps("default").Create(t.Context(), ownedBy("example.com/v1", "Nothing", ptr.To(true)), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "neither plugin is there")
}
