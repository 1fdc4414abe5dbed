// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind/kindtest"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/service"
)

// TestServiceWithoutTraffic checks that a Service of an external name has no policy for traffic in the cluster, and that the policy
// is checked before it is dropped.
func TestServiceWithoutTraffic(t *testing.T) {
	s := kindtest.StrategyOf(t, CoreKinds(), &corev1.Service{})
	for _, c := range []struct {
		kind   corev1.ServiceType
		policy corev1.ServiceInternalTrafficPolicy
		want   *corev1.ServiceInternalTrafficPolicy
		wrong  []string
	}{
		{corev1.ServiceTypeClusterIP, corev1.ServiceInternalTrafficPolicyLocal, ptr.To(corev1.ServiceInternalTrafficPolicyLocal), nil},
		{corev1.ServiceTypeExternalName, corev1.ServiceInternalTrafficPolicyLocal, nil, nil},
		{corev1.ServiceTypeExternalName, "x", nil, []string{`spec.internalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local"`}},
	} {
		old := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.9", ClusterIPs: []string{"10.0.0.9"}, Ports: []corev1.ServicePort{{Port: 80}},
		}}
		service.DefaultService(old)
		svc := old.DeepCopy()
		svc.Spec.Type, svc.Spec.InternalTrafficPolicy = c.kind, &c.policy
		if c.kind == corev1.ServiceTypeExternalName {
			svc.Spec.ExternalName = "example.com"
		}
		s.PrepareForUpdate(context.Background(), svc, old)
		kindtest.ExpectFindings(t, s.ValidateUpdate(context.Background(), svc, old), c.wrong)
		s.Canonicalize(svc)
		if got := svc.Spec.InternalTrafficPolicy; !ptr.Equal(got, c.want) {
			t.Errorf("%s with %q: internalTrafficPolicy %v, want %v", c.kind, c.policy, got, c.want)
		}
	}
}
