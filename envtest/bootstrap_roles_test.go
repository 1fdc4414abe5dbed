// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("a new server", func() {
	It("has the default roles, and who has them", func(ctx SpecContext) {
		var want struct {
			ClusterRoles        []rbacv1.ClusterRole
			ClusterRoleBindings []rbacv1.ClusterRoleBinding
			Roles               []rbacv1.Role
			RoleBindings        []rbacv1.RoleBinding
		}
		data, err := os.ReadFile("internal/bootstrap/roles.json")
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(data, &want)).To(Succeed())
		Expect(want.ClusterRoles).To(ContainElements(HaveField("Name", "admin"), HaveField("Name", "edit"), HaveField("Name", "view")))
		rbac := target.kube.RbacV1()
		for _, role := range want.ClusterRoles {
			have, err := rbac.ClusterRoles().Get(ctx, role.Name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(have.Rules).To(Equal(role.Rules), role.Name)
			Expect(have.AggregationRule).To(Equal(role.AggregationRule), role.Name)
			Expect(have.Labels).To(Equal(role.Labels), role.Name)
			Expect(have.Annotations).To(Equal(role.Annotations), role.Name)
		}
		for _, binding := range want.ClusterRoleBindings {
			have, err := rbac.ClusterRoleBindings().Get(ctx, binding.Name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(have.Subjects).To(Equal(binding.Subjects), binding.Name)
			Expect(have.RoleRef).To(Equal(binding.RoleRef), binding.Name)
		}
		for _, role := range want.Roles {
			have, err := rbac.Roles(role.Namespace).Get(ctx, role.Name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(have.Rules).To(Equal(role.Rules), role.Name)
		}
		for _, binding := range want.RoleBindings {
			have, err := rbac.RoleBindings(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(have.Subjects).To(Equal(binding.Subjects), binding.Name)
		}
	}, SpecTimeout(patience))

	It("says where it is reached from within the cluster", func(ctx SpecContext) {
		service, err := target.kube.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		port := service.Spec.Ports[0].TargetPort.IntVal
		Expect(strings.TrimSuffix(target.config.Host, "/")).To(HaveSuffix(service.Spec.Ports[0].TargetPort.String()))
		endpoints, err := target.kube.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(endpoints.Labels).To(Equal(map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}))
		Expect(endpoints.Subsets).To(HaveLen(1))
		Expect(endpoints.Subsets[0].Addresses).To(HaveLen(1))
		Expect(endpoints.Subsets[0].Ports).To(Equal([]corev1.EndpointPort{{Name: "https", Port: port, Protocol: corev1.ProtocolTCP}}))
		slice, err := target.kube.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(slice.Labels).To(Equal(map[string]string{"kubernetes.io/service-name": "kubernetes"}))
		Expect(slice.AddressType).To(Equal(discoveryv1.AddressTypeIPv4))
		Expect(slice.Endpoints).To(HaveLen(1))
		Expect(slice.Endpoints[0].Addresses).To(ConsistOf(endpoints.Subsets[0].Addresses[0].IP))
		Expect(*slice.Endpoints[0].Conditions.Ready).To(BeTrue())
		Expect(*slice.Ports[0].Port).To(Equal(port))
	}, SpecTimeout(patience))

	It("says whose certificates other API servers may believe", func(ctx SpecContext) {
		trust, err := target.kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(trust.Data).To(HaveKeyWithValue("client-ca-file", HavePrefix("-----BEGIN CERTIFICATE-----")))
	}, SpecTimeout(patience))
})
