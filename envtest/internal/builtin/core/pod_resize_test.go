// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind/kindtest"
)

// amounts reads resources like "cpu=1,memory=1Gi"; "" is none.
func amounts(text string) corev1.ResourceList {
	if text == "" {
		return nil
	}
	list := corev1.ResourceList{}
	for pair := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(pair, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

func requirements(requests, limits string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}
}

// resizable returns a Pod with a container, a sidecar and an init container, and what a test changes of it.
func resizable(change func(*corev1.Pod)) *corev1.Pod {
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "a", Resources: requirements("cpu=1,memory=1Gi,example.com/gpu=1", "cpu=2,example.com/gpu=1")}
	}
	side, first := container("side"), container("first")
	side.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("main")}, InitContainers: []corev1.Container{side, first}}}
	if change != nil {
		change(pod)
	}
	defaultPod(pod)
	pod.Status.QOSClass = QosClass(pod)
	return pod
}

// mainWith and initWith give a container other resources; whole gives them to the Pod.
func mainWith(requests, limits string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources = requirements(requests, limits) }
}

func initWith(i int, requests, limits string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.InitContainers[i].Resources = requirements(requests, limits) }
}

func whole(requests, limits string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Resources = ptr.To(requirements(requests, limits)) }
}

func TestPodResize(t *testing.T) {
	const (
		main, side, first = "spec.containers[0].resources", "spec.initContainers[0]", "spec.initContainers[1]"
		requestsGone      = ".requests: Forbidden: resource requests cannot be removed"
		limitsGone        = ".limits: Forbidden: resource limits cannot be removed"
		onlyThose         = "spec: Forbidden: only cpu and memory resources are mutable"
		onlyThoseInit     = ": Forbidden: only cpu and memory resources for init or sidecar containers are mutable"
	)
	both := func(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, change := range changes {
				change(pod)
			}
		}
	}
	bare := mainWith("", "")
	for _, c := range []struct {
		what        string
		old, change func(*corev1.Pod) // change is made to what old makes
		want        []string
	}{
		{"more", nil, mainWith("cpu=2,memory=2Gi,example.com/gpu=1", "cpu=3,example.com/gpu=1"), nil},
		{"less for the others", nil, both(initWith(0, "cpu=500m,memory=1Gi,example.com/gpu=1", "cpu=2,example.com/gpu=1"), initWith(1, "cpu=500m,memory=1Gi,example.com/gpu=1", "cpu=2,example.com/gpu=1")), nil},
		{"a limit more", nil, mainWith("cpu=1,memory=1Gi,example.com/gpu=1", "cpu=2,memory=2Gi,example.com/gpu=1"), nil},
		{"no request", nil, mainWith("cpu=1,example.com/gpu=1", "cpu=2,example.com/gpu=1"), []string{main + requestsGone}},
		{"no limit", nil, mainWith("cpu=1,memory=1Gi,example.com/gpu=1", "example.com/gpu=1"), []string{main + limitsGone}},
		{"no request of the others", nil, both(initWith(0, "cpu=1,example.com/gpu=1", "cpu=2,example.com/gpu=1"), initWith(1, "cpu=1,example.com/gpu=1", "cpu=2,example.com/gpu=1")),
			[]string{side + ".resources" + requestsGone, first + ".resources" + requestsGone}},
		{"another resource", nil, mainWith("cpu=1,memory=1Gi,example.com/gpu=2", "cpu=2,example.com/gpu=2"), []string{onlyThose}},
		{"another resource of a sidecar", nil, initWith(0, "cpu=1,memory=1Gi,example.com/gpu=2", "cpu=2,example.com/gpu=2"), []string{side + onlyThoseInit}},
		{"another policy", nil, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}, []string{onlyThose}},
		{"an image, which is not looked at", nil, func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "b" }, nil},
		{"another class of service", bare, mainWith("cpu=2,memory=1Gi", "cpu=2,memory=1Gi"), nil}, // the others keep it as it is
		{"the first request of all", func(pod *corev1.Pod) { bare(pod); pod.Spec.InitContainers = nil }, mainWith("cpu=1", ""),
			[]string{`spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing`}},
		{"a node that cannot", func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, nil, []string{"spec: Forbidden: Pod running on node without support for resize"}},
		{"the Pod as a whole", whole("cpu=4,memory=8Gi", ""), whole("cpu=5,memory=8Gi", ""), nil},
		{"no request of the Pod as a whole", whole("cpu=4,memory=8Gi", "cpu=9,memory=9Gi"), func(pod *corev1.Pod) { pod.Spec.Resources = nil }, []string{
			"spec.resources: Forbidden: pod-level resources cannot be removed"}},
		{"a container more", nil, func(pod *corev1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.InitContainers[1]) },
			[]string{"spec.containers: Forbidden: containers may not be added or removed on resize"}},
		{"an init container less", nil, func(pod *corev1.Pod) { pod.Spec.InitContainers = pod.Spec.InitContainers[:1] },
			[]string{"spec.initContainers: Forbidden: initContainers may not be added or removed on resize"}},
		{"other names", nil, func(pod *corev1.Pod) { pod.Spec.Containers[0].Name, pod.Spec.InitContainers[1].Name = "a", "b" }, []string{
			"spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
			"spec.initContainers[1].name: Forbidden: initContainers may not be renamed or reordered on resize"}},
		{"a static one", func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "a"} }, nil, []string{"[]: Forbidden: static pods cannot be resized"}},
		{"one for Windows", func(pod *corev1.Pod) { pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, nil, []string{"[]: Forbidden: windows pods cannot be resized"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			old := resizable(c.old)
			pod := old.DeepCopy()
			if c.change != nil {
				c.change(pod)
			}
			defaultPod(pod)
			s := resizeStrategy(kindtest.StrategyOf(t, CoreKinds(), pod))
			s.PrepareForUpdate(context.Background(), pod, old)
			kindtest.ExpectFindings(t, s.ValidateUpdate(context.Background(), pod, old), c.want)
		})
	}
}
