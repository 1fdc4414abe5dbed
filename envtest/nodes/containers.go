// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// initState is how far the init containers are.
type initState int

const (
	initGoes initState = iota
	initDone
	initFailed
)

// restarts says whether an init container is a sidecar, which goes on beside the others.
func restarts(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// find returns the container of a name, or nil.
func find(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// initialize lets the init containers go on, the next one only when the one before has done its work.
func (l *life) initialize() initState {
	for i := range l.status.InitContainerStatuses {
		c := &l.status.InitContainerStatuses[i]
		spec := find(l.pod.Spec.InitContainers, c.Name)
		switch {
		case spec == nil:
			continue
		case restarts(spec):
			l.advance(spec, c, corev1.RestartPolicyAlways, false)
			if !l.started() && c.State.Running == nil && (c.Started == nil || !*c.Started) {
				return initGoes
			}
			continue
		case done(c):
			continue
		}
		policy := policyOf(spec, l.pod.Spec.RestartPolicy)
		if policy == corev1.RestartPolicyAlways {
			policy = corev1.RestartPolicyOnFailure // a container that has succeeded is done
		}
		l.advance(spec, c, policy, true)
		switch {
		case done(c):
			c.Ready = true
		case stays(spec, c, policy):
			return initFailed
		}
		return initGoes // a later step starts what comes after
	}
	return initDone
}

// ran says whether a container has run.
func ran(c *corev1.ContainerStatus) bool {
	return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
}

// started says whether a container has run that is no init container: a sidecar that is down since then holds nothing up.
func (l *life) started() bool {
	return slices.ContainsFunc(l.status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return ran(&c) })
}

// spec returns the container of a name, or nil.
func (l *life) spec(name string) *corev1.Container {
	if c := find(l.pod.Spec.InitContainers, name); c != nil {
		return c
	}
	return find(l.pod.Spec.Containers, name)
}

// initializes says whether a container is an init container that others wait for, and no sidecar.
func (l *life) initializes(spec *corev1.Container) bool {
	return find(l.pod.Spec.InitContainers, spec.Name) != nil && !restarts(spec)
}

// initialized says whether all init containers have done their work.
func (l *life) initialized() bool {
	if l.started() {
		return true
	}
	for i, c := range l.status.InitContainerStatuses {
		if sidecar := restarts(&l.pod.Spec.InitContainers[i]); sidecar && c.State.Running == nil || !sidecar && !done(&c) {
			return false
		}
	}
	return len(l.status.InitContainerStatuses) == len(l.pod.Spec.InitContainers)
}

// done says whether a container has succeeded.
func done(c *corev1.ContainerStatus) bool {
	return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
}

// policyOf returns the restart policy of a container: its own, or else that of the Pod (KEP-5307).
func policyOf(spec *corev1.Container, pod corev1.RestartPolicy) corev1.RestartPolicy {
	if spec.RestartPolicy != nil {
		return corev1.RestartPolicy(*spec.RestartPolicy)
	}
	return pod
}

// stays says whether a container has ended, and does not start again. The first of its rules that means its exit code counts more
// than its policy.
func stays(spec *corev1.Container, c *corev1.ContainerStatus, policy corev1.RestartPolicy) bool {
	if c.State.Terminated == nil {
		return false
	}
	code := c.State.Terminated.ExitCode
	for _, rule := range spec.RestartPolicyRules {
		means := rule.ExitCodes != nil &&
			slices.Contains(rule.ExitCodes.Values, code) == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
		if means {
			return false // Restart; and RestartAllContainers, which is this one alone here
		}
	}
	return policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && code == 0
}

// advance takes one step in the life of a container. Ends says that it ends by itself.
func (l *life) advance(spec *corev1.Container, c *corev1.ContainerStatus, policy corev1.RestartPolicy, ends bool) {
	p := l.memory.pause(c.Name)
	switch {
	case c.State.Running != nil:
		l.running(spec, c, p, ends)
	case c.State.Terminated != nil:
		if stays(spec, c, policy) {
			return
		}
		c.LastTerminationState = c.State
		l.back(c, p, "CrashLoopBackOff", "back-off restarting failed container "+c.Name)
	case c.State.Waiting != nil && c.State.Waiting.Reason == "ErrImagePull":
		l.back(c, p, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q", spec.Image))
	default:
		l.start(spec, c, p)
	}
}

// back lets a container wait before it is started again.
func (l *life) back(c *corev1.ContainerStatus, p *pause, reason, message string) {
	const most = 5 // doublings
	delay := l.nodes.options.RestartDelay << min(p.failed, most)
	if delay>>min(p.failed, most) != l.nodes.options.RestartDelay {
		delay = l.nodes.options.RestartDelay // it is centuries already
	}
	until := l.now.Add(delay)
	l.later = append(l.later, func() { p.failed, p.until = p.failed+1, until })
	c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	l.after(delay)
}

// after has the Pod looked at again after a time.
func (l *life) after(d time.Duration) {
	d = max(d, time.Millisecond)
	if l.wait == 0 || d < l.wait {
		l.wait = d
	}
}

// start starts a container, unless a pause or a fault keeps it from starting.
func (l *life) start(spec *corev1.Container, c *corev1.ContainerStatus, p *pause) {
	if p.by == nil && !l.now.Before(p.until) {
		if f := l.find(delays, l.pod, c.Name); f != nil {
			p.by, p.until = f, l.now.Add(f.failure.by)
			f.hit("")
		}
	}
	if rest := p.until.Sub(l.now); rest > 0 && (p.by == nil || !p.by.over()) {
		l.after(rest)
		return
	}
	if f := l.find(failsPull, l.pod, c.Name); f != nil {
		l.later = append(l.later, func() { p.by, p.until = nil, time.Time{} })
		c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "ErrImagePull", Message: fmt.Sprintf("failed to pull image %q: a fault was injected", spec.Image),
		}}
		l.hits = append(l.hits, hit{fault: f})
		return
	}
	ends := l.now.Add(l.nodes.options.Completion)
	l.later = append(l.later, func() { p.by, p.until, p.ends = nil, time.Time{}, ends })
	if c.LastTerminationState.Terminated != nil {
		c.RestartCount++
	}
	started := true
	c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: l.time()}}
	c.Started, c.ImageID = &started, spec.Image
	c.ContainerID = fmt.Sprintf("tarn://%s/%s/%d", l.pod.UID, c.Name, c.RestartCount)
	l.connect()
	l.ready(spec, c)
}

// connect gives the Pod an address.
func (l *life) connect() {
	if l.status.PodIP != "" {
		return
	}
	l.status.PodIP = hostIP
	if !l.pod.Spec.HostNetwork {
		l.status.PodIP = l.address()
	}
	l.status.PodIPs = []corev1.PodIP{{IP: l.status.PodIP}}
}

// running is a step of a container that runs.
func (l *life) running(spec *corev1.Container, c *corev1.ContainerStatus, p *pause, ends bool) {
	if f := l.find(crashes, l.pod, c.Name); f != nil {
		l.terminate(c, f.failure.code, "Error")
		l.hits = append(l.hits, hit{fault: f})
		return
	}
	if ends {
		if rest := p.ends.Sub(l.now); rest > 0 {
			l.after(rest)
		} else {
			l.terminate(c, 0, "Completed")
			return
		}
	}
	l.ready(spec, c)
}

// ready makes a container that runs ready, unless a fault keeps it from that. An init container is ready when it has done its work.
func (l *life) ready(spec *corev1.Container, c *corev1.ContainerStatus) {
	if l.initializes(spec) {
		return
	}
	f, uncounted := l.unready(c.Name)
	c.Ready = f == nil
	if f != nil && uncounted {
		l.hits = append(l.hits, hit{f, heldName(l.pod, c.Name)})
	}
}

// terminate ends a container that runs.
func (l *life) terminate(c *corev1.ContainerStatus, code int32, reason string) {
	started := false
	c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: c.State.Running.StartedAt, FinishedAt: l.time(), ContainerID: c.ContainerID,
	}}
	c.Ready, c.Started = false, &started
}
