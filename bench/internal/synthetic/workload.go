// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// WorkloadKind is the kind of [Workload]. client-go's scheme knows it, as that of a
// program does to which its author added a custom resource.
var WorkloadKind = schema.GroupVersionKind{Group: "bench.example.com", Version: "v1", Kind: "Workload"}

func init() {
	version := WorkloadKind.GroupVersion()
	scheme.Scheme.AddKnownTypes(version, &Workload{}, &WorkloadList{})
	metav1.AddToGroupVersion(scheme.Scheme, version)
	utilruntime.Must(scheme.Scheme.SetVersionPriority(version))
}

// Workload is a custom resource with all that a Pod has, so that the figures of both
// can be compared.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              corev1.PodSpec   `json:"spec,omitempty"`
	Status            corev1.PodStatus `json:"status,omitempty"`
}

// WorkloadList is a list of them.
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workload `json:"items"`
}

// WorkloadOf returns a Workload with the content of the Pod, which both share from then on.
func WorkloadOf(pod *corev1.Pod) *Workload {
	return &Workload{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec, Status: pod.Status}
}

// DeepCopyInto copies w to out.
func (w *Workload) DeepCopyInto(out *Workload) {
	out.TypeMeta = w.TypeMeta
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	w.Spec.DeepCopyInto(&out.Spec)
	w.Status.DeepCopyInto(&out.Status)
}

// DeepCopyObject returns a copy.
func (w *Workload) DeepCopyObject() runtime.Object {
	out := &Workload{}
	w.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy.
func (l *WorkloadList) DeepCopyObject() runtime.Object {
	out := &WorkloadList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]Workload, len(l.Items))
	}
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
