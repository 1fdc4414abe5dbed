// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestShiftEstablished(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 10, 500, time.UTC)
	for name, c := range map[string]struct {
		kind   apiextensions.CustomResourceDefinitionConditionType
		status apiextensions.ConditionStatus
		at     time.Time
		want   time.Time
	}{
		"just now":          {apiextensions.Established, apiextensions.ConditionTrue, now, now.Add(-3 * time.Second)},
		"some time ago":     {apiextensions.Established, apiextensions.ConditionTrue, now.Add(-time.Minute), now.Add(-time.Minute)},
		"shifted before":    {apiextensions.Established, apiextensions.ConditionTrue, now.Add(-3 * time.Second), now.Add(-3 * time.Second)},
		"not quite yet":     {apiextensions.Established, apiextensions.ConditionFalse, now, now.Add(-3 * time.Second)},
		"another condition": {apiextensions.NamesAccepted, apiextensions.ConditionTrue, now, now},
	} {
		crd := &apiextensions.CustomResourceDefinition{Status: apiextensions.CustomResourceDefinitionStatus{
			Conditions: []apiextensions.CustomResourceDefinitionCondition{{
				Type: c.kind, Status: c.status, LastTransitionTime: metav1.NewTime(c.at),
			}},
		}}
		shiftEstablished(crd, now)
		if got := crd.Status.Conditions[0].LastTransitionTime.Time; !got.Equal(c.want) {
			t.Errorf("%s: the time is %s, want %s", name, got, c.want)
		}
	}
}
