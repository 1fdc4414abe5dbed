// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
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
	later  []func()      // what is remembered when the step is written
	wait   time.Duration // until something happens by itself; 0 if nothing does
}

// step is a status to write, the faults that it shows, and what is remembered with it.
type step struct {
	status corev1.PodStatus
	hits   []hit
	later  []func()
}

// hit is a fault that happened. Held is the container that stays unready, or empty.
type hit struct {
	fault *Fault
	held  string
}

// count counts the faults, and remembers, when the API server has the status.
func (s *step) count() {
	for _, remember := range s.later {
		remember()
	}
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
			const why = "The node was low on resource: memory."
			l.fail("Evicted", why)
			l.set(corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: why})
			l.hits = append(l.hits, hit{fault: f})
		} else if rest, bounded := l.active(); bounded && rest <= 0 {
			l.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
		} else if l.run(); bounded && !over(l.status.Phase) {
			l.after(rest)
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
			l.interrupt(c)
		}
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			l.status.Phase = corev1.PodFailed
		}
	}
	l.conditions()
	return l.step()
}

// interrupted is the exit code of a program that SIGTERM ends: 128 and its number.
const interrupted = 143

// interrupt ends a container whose Pod is deleted. A container that would have ended by itself has not done its work: its Pod
// must not count for its Job.
func (l *life) interrupt(c *corev1.ContainerStatus) {
	spec := l.spec(c.Name)
	if spec != nil && policyOf(spec, l.pod.Spec.RestartPolicy) == corev1.RestartPolicyAlways && !l.initializes(spec) {
		l.terminate(c, 0, "Completed")
	} else {
		l.terminate(c, interrupted, "Error")
	}
}

// step returns the status as a step, if it is another one. If it is not, the faults that it shows are in the server already.
func (l *life) step() *step {
	l.status.ObservedGeneration = l.pod.Generation
	s := &step{l.status, l.hits, l.later}
	if equality.Semantic.DeepEqual(l.status, l.pod.Status) {
		s.count()
		return nil
	}
	return s
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
				policy := policyOf(spec, l.pod.Spec.RestartPolicy)
				l.advance(spec, c, policy, policy != corev1.RestartPolicyAlways)
				ended = ended && stays(spec, c, policy)
			}
			failed = failed || c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
		}
		l.status.Phase = corev1.PodRunning
		if slices.ContainsFunc(l.status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !ran(&c) }) {
			l.status.Phase = corev1.PodPending // until all have, as in a kubelet's getPhase
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

// active returns how long the Pod may go on, if its spec says so.
func (l *life) active() (rest time.Duration, bounded bool) {
	seconds := l.pod.Spec.ActiveDeadlineSeconds
	if seconds == nil {
		return 0, false
	}
	return l.status.StartTime.Add(time.Duration(*seconds) * time.Second).Sub(l.now), true
}

// fail ends the Pod, and says why.
func (l *life) fail(reason, message string) {
	for _, c := range l.all() {
		if c.State.Running != nil {
			l.terminate(c, 137, "Error")
		}
	}
	l.status.Phase, l.status.Reason, l.status.Message = corev1.PodFailed, reason, message
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

// condition sets one condition. The reason is for a condition that is not true.
func (l *life) condition(t corev1.PodConditionType, is bool, reason string) {
	now := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
	if !is {
		now.Status, now.Reason = corev1.ConditionFalse, reason
	}
	l.set(now)
}

// set sets a condition as it is.
func (l *life) set(now corev1.PodCondition) {
	now.LastTransitionTime, now.ObservedGeneration = l.time(), l.pod.Generation
	for i := range l.status.Conditions {
		if c := &l.status.Conditions[i]; c.Type == now.Type {
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
