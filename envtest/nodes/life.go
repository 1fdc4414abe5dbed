// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// life is one look at a Pod: what its status is next.
type life struct {
	nodes   *Nodes
	memory  *memory
	pod     *corev1.Pod // not changed
	now     time.Time
	address func() string

	status corev1.PodStatus // what becomes of that of pod
	hits   []hit
	wait   time.Duration // until something happens by itself; 0 if nothing does
}

// step is a status to write, and the faults that it shows.
type step struct {
	status corev1.PodStatus
	hits   []hit
}

// hit is a fault that happened. Held is the container that stays unready, or empty.
type hit struct {
	fault *Fault
	held  string
}

// count counts the faults.
func (s *step) count() {
	for _, h := range s.hits {
		h.fault.hit(h.held)
	}
}

// next returns the next step, or nil if there is none for now.
func (l *life) next() *step {
	l.status = *l.pod.Status.DeepCopy()
	switch {
	case over(l.status.Phase):
		return nil
	case !l.begun():
		l.begin()
	default:
		if f := l.find(evicts, l.pod, ""); f != nil {
			l.evict(f)
		} else {
			l.run()
		}
	}
	return l.step()
}

// last returns the step that ends a Pod that is being deleted, or nil if nothing of it runs.
func (l *life) last() *step {
	l.status = *l.pod.Status.DeepCopy()
	if !l.begun() || over(l.status.Phase) {
		return nil
	}
	l.status.Phase = corev1.PodSucceeded
	for _, c := range l.all() {
		if c.State.Running != nil {
			l.terminate(c, 0, "Completed")
		}
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			l.status.Phase = corev1.PodFailed
		}
	}
	l.conditions()
	return l.step()
}

// step returns the status as a step, if it is another one.
func (l *life) step() *step {
	l.status.ObservedGeneration = l.pod.Generation
	if equality.Semantic.DeepEqual(l.status, l.pod.Status) {
		return nil
	}
	return &step{l.status, l.hits}
}

// over says whether a Pod with that phase has ended.
func over(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// all returns the statuses of all containers.
func (l *life) all() []*corev1.ContainerStatus {
	var all []*corev1.ContainerStatus
	for i := range l.status.InitContainerStatuses {
		all = append(all, &l.status.InitContainerStatuses[i])
	}
	for i := range l.status.ContainerStatuses {
		all = append(all, &l.status.ContainerStatuses[i])
	}
	return all
}

// begun says whether a node has accepted the Pod. A status that somebody else has written may lack containers.
func (l *life) begun() bool {
	return l.status.StartTime != nil && len(l.status.ContainerStatuses) == len(l.pod.Spec.Containers) &&
		len(l.status.InitContainerStatuses) == len(l.pod.Spec.InitContainers)
}

// begin accepts the Pod on its node.
func (l *life) begin() {
	now := l.time()
	l.status.Phase, l.status.StartTime = corev1.PodPending, &now
	l.status.HostIP, l.status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	reason := "ContainerCreating"
	if len(l.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	l.status.InitContainerStatuses = waiting(l.pod.Spec.InitContainers, reason)
	l.status.ContainerStatuses = waiting(l.pod.Spec.Containers, reason)
	l.conditions()
}

// waiting returns the statuses of containers that have not started.
func waiting(containers []corev1.Container, reason string) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range containers {
		started := false
		all = append(all, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Started: &started,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		})
	}
	return all
}

// run lets the containers go on: the init containers one after the other, and then the others.
func (l *life) run() {
	initialized := l.initialize()
	ended, failed := initialized == initFailed, initialized == initFailed
	if initialized == initDone {
		ended = true
		for i := range l.status.ContainerStatuses {
			c := &l.status.ContainerStatuses[i]
			if spec := find(l.pod.Spec.Containers, c.Name); spec != nil {
				l.advance(spec, c, l.pod.Spec.RestartPolicy, l.pod.Spec.RestartPolicy != corev1.RestartPolicyAlways)
			}
			ended = ended && l.stays(c, l.pod.Spec.RestartPolicy)
			failed = failed || c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
			if c.State.Running != nil || c.State.Terminated != nil {
				l.status.Phase = corev1.PodRunning
			}
		}
	}
	switch {
	case ended && failed:
		l.finish(corev1.PodFailed)
	case ended:
		l.finish(corev1.PodSucceeded)
	}
	l.conditions()
}

// finish ends the Pod: sidecars end with its containers.
func (l *life) finish(phase corev1.PodPhase) {
	l.status.Phase, l.wait = phase, 0
	for _, c := range l.all() {
		if c.State.Running != nil {
			l.terminate(c, 0, "Completed")
		}
	}
}

// evict lets the Pod fail.
func (l *life) evict(f *Fault) {
	for _, c := range l.all() {
		if c.State.Running != nil {
			l.terminate(c, 137, "Error")
		}
	}
	l.status.Phase, l.status.Reason, l.status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	l.hits = append(l.hits, hit{fault: f})
	l.conditions()
}

// conditions sets the conditions by the containers.
func (l *life) conditions() {
	initialized, ready := l.initialized(), true
	for _, c := range l.status.ContainerStatuses {
		ready = ready && c.Ready
	}
	for i, c := range l.status.InitContainerStatuses {
		ready = ready && (c.Ready || !restarts(&l.pod.Spec.InitContainers[i]))
	}
	completed := l.status.Phase == corev1.PodSucceeded
	unready := "ContainersNotReady"
	if completed {
		unready = "PodCompleted"
	} else if l.status.Phase == corev1.PodFailed {
		unready = "PodFailed"
	}
	l.condition(corev1.PodReadyToStartContainers, !over(l.status.Phase), "")
	l.condition(corev1.PodInitialized, initialized || completed, "ContainersNotInitialized")
	l.condition(corev1.ContainersReady, ready && !over(l.status.Phase), unready)
	gated := ""
	for _, gate := range l.pod.Spec.ReadinessGates {
		if !l.has(gate.ConditionType) {
			gated = "ReadinessGatesNotReady"
		}
	}
	if ready && gated != "" && !over(l.status.Phase) {
		unready = gated
	}
	l.condition(corev1.PodReady, ready && gated == "" && !over(l.status.Phase), unready)
	l.condition(corev1.PodScheduled, true, "")
}

// has says whether a condition is true.
func (l *life) has(t corev1.PodConditionType) bool {
	for _, c := range l.status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// condition sets one condition. The reason is for one that is not true, or for a Pod that has completed.
func (l *life) condition(t corev1.PodConditionType, is bool, reason string) {
	now := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: l.time(), ObservedGeneration: l.pod.Generation}
	if !is {
		now.Status, now.Reason = corev1.ConditionFalse, reason
	}
	for i := range l.status.Conditions {
		if c := &l.status.Conditions[i]; c.Type == t {
			if c.Status == now.Status {
				now.LastTransitionTime = c.LastTransitionTime
			}
			*c = now
			return
		}
	}
	l.status.Conditions = append(l.status.Conditions, now)
}

// time returns the present as the API keeps it: in whole seconds.
func (l *life) time() metav1.Time { return metav1.NewTime(l.now.Truncate(time.Second)) }
