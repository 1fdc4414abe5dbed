// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// DecodeReusing skips a section that only the other object has. The pieces of byte slices in it refer to
// one another from the start of the section, and what follows the section is still compared.
func TestASectionThatOnlyTheOtherObjectHasIsSkipped(t *testing.T) {
	g, c := NewWithT(t), codecFor(t, reflect.TypeFor[appsv1.Deployment]())
	for n := range 200 {
		key := `"k:{\"ip\":\"10.0.0.1\"}":`
		raw := `{` + key + strings.Repeat("x", n%40+3) + key + strings.Repeat("y", 150) + `}`
		other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", n+1), Namespace: "namespace", Annotations: map[string]string{"a-key": strings.Repeat("v", 200-n)}}}
		other.Spec.Template.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "manager", FieldsV1: metav1.NewFieldsV1(raw)}}
		other.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Available", Reason: "a reason", Message: "a message"}}
		obj := other.DeepCopy()
		obj.Spec = appsv1.DeploymentSpec{}
		d := dictionary.New(dictionary.Limits{})
		o, like := mustEncode(t, c, obj, d), mustEncode(t, c, other, d)
		got := new(appsv1.Deployment)
		g.Expect(c.DecodeReusing(o, got, like, other)).To(Succeed())
		g.Expect(got).To(Equal(obj))
		g.Expect(&got.Status.Conditions[0]).To(BeIdenticalTo(&other.Status.Conditions[0]), "round %d: the conditions are the same and not shared", n)
	}
}

// The bytes of an object that looks like another one's status are not taken for it.
func TestASkippedSectionDoesNotPassForAnother(t *testing.T) {
	g, c := NewWithT(t), codecFor(t, reflect.TypeFor[appsv1.Deployment]())
	const key = `"k:{\"ip\":\"10.0.0.1\"}":`
	const room = 32 // its length is written as the bitmap of a status with conditions
	for namespace := range 100 {
		for back := 2; back < 6; back++ {
			obj := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("s", namespace+3), Name: strings.Repeat("n", len(key)+room)}}
			obj.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Available", Message: "new"}}
			d := dictionary.New(dictionary.Limits{})
			o := mustEncode(t, c, obj, d)
			data := string(flat.Bytes(o))
			copied := data[strings.Index(data, "Available")-back:]
			if len(copied) > room {
				t.Fatal("too long: ", len(copied))
			}
			raw := `{` + key + strings.Repeat("x", 150) + key + copied + strings.Repeat(" ", room-len(copied))
			other := obj.DeepCopy()
			other.Spec.Template.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "manager", FieldsV1: metav1.NewFieldsV1(raw)}}
			other.Status.Conditions[0].Message = "old"
			got := new(appsv1.Deployment)
			g.Expect(c.DecodeReusing(o, got, mustEncode(t, c, other, d), other)).To(Succeed())
			g.Expect(got).To(Equal(obj), "namespace of %d, %d bytes back", namespace+3, back)
		}
	}
}
