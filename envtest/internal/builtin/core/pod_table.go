// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// podCells shows a Pod.
func podCells(pod *corev1.Pod) []any {
	s := summarize(pod)
	restarts := strconv.Itoa(int(s.restarts))
	if s.restarts > 0 && !s.restarted.IsZero() {
		restarts += " (" + kind.Since(s.restarted) + " ago)"
	}
	return []any{
		fmt.Sprintf("%d/%d", s.ready, s.containers), s.reason, restarts, kind.AgeOf(pod),
		kind.OrNone(pod.Status.PodIP), kind.OrNone(pod.Spec.NodeName), kind.OrNone(pod.Status.NominatedNodeName), readinessGates(pod),
	}
}

// podSummary is a Pod in one line.
type podSummary struct {
	containers, ready int
	restarts          int32
	restarted         time.Time // the last restart, zero if it is not known
	reason            string    // what the Pod is doing, or why it does not
}

// summarize finds the one word that says most about a Pod: from its phase, over its containers, to its deletion.
func summarize(pod *corev1.Pod) podSummary {
	s := podSummary{containers: len(pod.Spec.Containers), reason: kind.Or(pod.Status.Reason, string(pod.Status.Phase))}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	for i := range pod.Spec.InitContainers {
		if podspec.IsSidecar(pod, pod.Spec.InitContainers[i].Name) {
			s.containers++
		}
	}
	if !s.initializing(pod) {
		s.running(pod)
	}
	terminal := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	switch {
	case pod.DeletionTimestamp != nil && pod.Status.Reason == "NodeLost":
		s.reason = "Unknown"
	case pod.DeletionTimestamp != nil && !terminal:
		s.reason = "Terminating"
	}
	return s
}

// initializing looks at the init containers, and reports whether one of them is not done yet.
func (s *podSummary) initializing(pod *corev1.Pod) bool {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		sidecar := podspec.IsSidecar(pod, c.Name)
		switch {
		case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
			continue
		case sidecar && c.Started != nil && *c.Started:
			s.count(c)
			if c.Ready {
				s.ready++
			}
			continue
		case c.State.Terminated != nil:
			s.reason = "Init:" + exitReason(c.State.Terminated)
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
			s.reason = "Init:" + c.State.Waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		s.count(c)
		return true
	}
	return false
}

// running looks at the containers. The first one has the last word.
func (s *podSummary) running(pod *corev1.Pod) {
	anyRuns, failure := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &pod.Status.ContainerStatuses[i]
		s.count(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.reason = exitReason(c.State.Terminated)
			if c.State.Terminated.ExitCode != 0 {
				failure = s.reason
			}
		case c.Ready && c.State.Running != nil:
			anyRuns = true
			s.ready++
		}
	}
	switch {
	case s.reason != "Completed":
	case anyRuns && ready(pod):
		s.reason = "Running"
	case failure != "":
		s.reason = failure
	case anyRuns:
		s.reason = "NotReady"
	}
}

// count adds a container's restarts.
func (s *podSummary) count(c *corev1.ContainerStatus) {
	s.restarts += c.RestartCount
	if last := c.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(s.restarted) {
		s.restarted = last.FinishedAt.Time
	}
}

// exitReason says why a container ended.
func exitReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}

// readinessGates shows how many gates are open.
func readinessGates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == gate.ConditionType && condition.Status == corev1.ConditionTrue {
				open++
			}
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}
