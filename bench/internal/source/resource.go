// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// Resource is the path of what is served.
type Resource string

// The resources: a built-in one, which clients ask for in protobuf, and a custom one
// with the same content, which exists in JSON alone.
const (
	Pods      = Resource("/api/v1/pods")
	Workloads = Resource("/apis/bench.example.com/v1/workloads")
)

func (r Resource) mediaType() string {
	if r == Workloads {
		return runtime.ContentTypeJSON
	}
	return runtime.ContentTypeProtobuf
}

func (r Resource) version() schema.GroupVersion {
	if r == Workloads {
		return synthetic.WorkloadKind.GroupVersion()
	}
	return corev1.SchemeGroupVersion
}

// object returns the resource's object with the content of the Pod.
func (r Resource) object(pod *corev1.Pod) runtime.Object {
	if r == Workloads {
		return synthetic.WorkloadOf(pod)
	}
	return pod
}

func (r Resource) listOf(version string, pods []*corev1.Pod) runtime.Object {
	meta := metav1.ListMeta{ResourceVersion: version}
	if r == Workloads {
		list := &synthetic.WorkloadList{ListMeta: meta}
		for _, pod := range pods {
			list.Items = append(list.Items, *synthetic.WorkloadOf(pod))
		}
		return list
	}
	list := &corev1.PodList{ListMeta: meta}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	return list
}
