// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodCells(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	exited := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	status := func(phase corev1.PodPhase, main ...corev1.ContainerStatus) corev1.PodStatus {
		return corev1.PodStatus{Phase: phase, ContainerStatuses: main}
	}
	now := metav1.Now()
	for _, c := range []struct {
		pod  corev1.Pod
		want string
	}{
		{corev1.Pod{Status: status(corev1.PodPending)}, "0/1 Pending 0"},
		{corev1.Pod{Status: status(corev1.PodRunning, corev1.ContainerStatus{Ready: true, State: running, RestartCount: 2})}, "1/1 Running 2"},
		{corev1.Pod{Status: status(corev1.PodRunning, corev1.ContainerStatus{State: waiting, RestartCount: 3})}, "0/1 CrashLoopBackOff 3"},
		{corev1.Pod{Status: status(corev1.PodFailed, corev1.ContainerStatus{State: exited(2)})}, "0/1 ExitCode:2 0"},
		{corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: status(corev1.PodRunning)}, "0/1 Terminating 0"},
		{corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "i", State: exited(1)}}}}, "0/1 Init:ExitCode:1 0"},
	} {
		c.pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		cells := podCells(&c.pod)
		if got := fmt.Sprintf("%v %v %v", cells[0], cells[1], cells[2]); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
