// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind/kindtest"
)

// TestClaimDataSource checks that an impossible data source is dropped, as long as only the old field names it, and that a wrong
// name is refused in both fields.
func TestClaimDataSource(t *testing.T) {
	source := func(group, kind, name string) *corev1.TypedLocalObjectReference {
		if group == "" {
			return &corev1.TypedLocalObjectReference{Kind: kind, Name: name}
		}
		return &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: kind, Name: name}
	}
	for _, c := range []struct {
		what   string
		source *corev1.TypedLocalObjectReference
		ref    *corev1.TypedObjectReference
		kept   bool
		want   []string
	}{
		{"a claim", source("", "PersistentVolumeClaim", "a"), nil, true, nil},
		{"a snapshot", source("snapshot.storage.k8s.io", "VolumeSnapshot", "a"), nil, true, nil},
		{"something else", source("", "Pod", "a"), nil, false, nil},
		{"something of another group", source("-", "Populator", ""), nil, false, nil},
		{"nothing", source("", "", ""), nil, false, nil},
		{"a claim without a name", source("", "PersistentVolumeClaim", ""), nil, true,
			[]string{"spec.dataSource.name: Required value", "spec.dataSourceRef.name: Required value"}},
		{"something else in both fields", source("", "Pod", "a"), &corev1.TypedObjectReference{Kind: "Pod", Name: "a"}, true, []string{
			`spec.dataSource: Invalid value: "Pod": must be 'PersistentVolumeClaim' when referencing the default apiGroup`,
			`spec.dataSourceRef: Invalid value: "Pod": must be 'PersistentVolumeClaim' when referencing the default apiGroup`,
		}},
		{"a populator in the new field", nil, &corev1.TypedObjectReference{APIGroup: ptr.To("example.com"), Kind: "Populator", Name: "a"}, true, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, DataSource: c.source, DataSourceRef: c.ref,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}}
			preparePersistentVolumeClaim(context.Background(), claim, nil)
			if kept := claim.Spec.DataSource != nil; kept != c.kept || kept != (claim.Spec.DataSourceRef != nil) {
				t.Errorf("has %v and %v", claim.Spec.DataSource, claim.Spec.DataSourceRef)
			}
			kindtest.ExpectFindings(t, validatePersistentVolumeClaim(claim, nil), c.want)
		})
	}
}

// TestClaimDataSourceStays checks that an update does not lose the data source that a claim has, of whatever kind.
func TestClaimDataSourceStays(t *testing.T) {
	old := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{DataSourceRef: &corev1.TypedObjectReference{APIGroup: ptr.To("example.com"), Kind: "Populator", Name: "a"}}}
	preparePersistentVolumeClaim(context.Background(), old, nil)
	claim := old.DeepCopy()
	claim.Spec.DataSourceRef = nil // an old client does not know it
	preparePersistentVolumeClaim(context.Background(), claim, old)
	if claim.Spec.DataSource == nil || claim.Spec.DataSourceRef == nil {
		t.Errorf("has %v and %v", claim.Spec.DataSource, claim.Spec.DataSourceRef)
	}
}
