// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultPod fills a Pod: what every Pod template gets, and what only Pods get.
func defaultPod(pod *corev1.Pod) {
	dropOldAnnotations(pod.Annotations)
	defaultPodSpec(&pod.Spec)
	missing(&pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if seconds := pod.Spec.TerminationGracePeriodSeconds; *seconds < 0 {
		*seconds = 1
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		each(containers, func(c *corev1.Container) {
			requestLimits(&c.Resources)
			if pod.Spec.HostNetwork {
				each(c.Ports, func(p *corev1.ContainerPort) { unset(&p.HostPort, p.ContainerPort) })
			}
		})
	}
	if pod.Spec.Resources != nil {
		defaultWholePod(&pod.Spec)
	}
	defaultPodStatus(&pod.Status)
}

// defaultWholePod completes the resources of a Pod as a whole, where it has some: limits of huge pages are those of its containers,
// and a request is what its containers request, or the limit.
func defaultWholePod(spec *corev1.PodSpec) {
	whole := spec.Resources
	add := func(list *corev1.ResourceList, name corev1.ResourceName, value resource.Quantity) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		if _, ok := (*list)[name]; !ok {
			(*list)[name] = value.DeepCopy()
		}
	}
	if len(whole.Limits)+len(whole.Requests) > 0 {
		for name, limit := range sumContainers(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }) {
			if _, ok := whole.Requests[name]; !ok && isHugePages(name) {
				add(&whole.Limits, name, limit)
			}
		}
	}
	if len(whole.Limits) == 0 {
		return
	}
	for name, request := range wholePod(containerRequests(spec)) {
		if mayExceed(name) {
			add(&whole.Requests, name, request)
		}
	}
	for name, limit := range wholePod(whole.Limits) {
		add(&whole.Requests, name, limit)
	}
}

func defaultPodStatus(status *corev1.PodStatus) {
	// The two ways to write the address of a Pod say the same; the old one wins.
	switch {
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		each(containers, func(c *corev1.ContainerStatus) {
			roundUp(c.AllocatedResources)
			roundRequirements(c.Resources)
		})
	}
	roundUp(status.AllocatedResources)
	roundRequirements(status.Resources)
}

// requestLimits makes each limit without a request the request too.
func requestLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// defaultTemplate fills a Pod template.
func defaultTemplate(template *corev1.PodTemplateSpec) {
	dropOldAnnotations(template.Annotations)
	defaultPodSpec(&template.Spec)
}

// dropOldAnnotations drops those that said what init containers there are before there was a field.
func dropOldAnnotations(annotations map[string]string) {
	for _, stage := range []string{"alpha", "beta"} {
		delete(annotations, "pod."+stage+".kubernetes.io/init-containers")
		delete(annotations, "pod."+stage+".kubernetes.io/init-container-statuses")
	}
}

// defaultPodSpec fills what Pods and Pod templates have in common.
func defaultPodSpec(spec *corev1.PodSpec) {
	unset(&spec.DNSPolicy, corev1.DNSClusterFirst)
	unset(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	unset(&spec.SchedulerName, corev1.DefaultSchedulerName)
	missing(&spec.SecurityContext, corev1.PodSecurityContext{})
	missing(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	// Two names for one field.
	unset(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	each(spec.Volumes, defaultVolume)
	each(spec.InitContainers, defaultContainer)
	each(spec.Containers, defaultContainer)
	each(spec.EphemeralContainers, func(c *corev1.EphemeralContainer) {
		defaultContainer((*corev1.Container)(&c.EphemeralContainerCommon))
	})
	roundUp(spec.Overhead)
	roundRequirements(spec.Resources)
}

func defaultContainer(c *corev1.Container) {
	unset(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	unset(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	unset(&c.ImagePullPolicy, pullPolicy(c.Image))
	each(c.Ports, func(p *corev1.ContainerPort) { unset(&p.Protocol, corev1.ProtocolTCP) })
	each(c.Env, func(e *corev1.EnvVar) {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			unset(&e.ValueFrom.FieldRef.APIVersion, "v1")
		}
		if e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil {
			missing(&e.ValueFrom.FileKeyRef.Optional, false)
		}
	})
	roundRequirements(&c.Resources)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			defaultProbe(probe)
		}
	}
	if c.Lifecycle != nil {
		for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				defaultHTTPGet(handler.HTTPGet)
			}
		}
	}
}

// imageName is the form of the names of images: registry, repository, tag and digest.
var imageName = regexp.MustCompile(`^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]{0,127})?(@[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$`)

// pullPolicy is Always for an image that may change under its name.
func pullPolicy(image string) corev1.PullPolicy {
	if !imageName.MatchString(image) {
		return corev1.PullIfNotPresent
	}
	name, _, digested := strings.Cut(image, "@")
	last := name[strings.LastIndex(name, "/")+1:]
	_, tag, tagged := strings.Cut(last, ":")
	if tag == "latest" || !tagged && !digested {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(probe *corev1.Probe) {
	unset(&probe.TimeoutSeconds, 1)
	unset(&probe.PeriodSeconds, 10)
	unset(&probe.SuccessThreshold, 1)
	unset(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		missing(&probe.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get == nil {
		return
	}
	unset(&get.Path, "/")
	unset(&get.Scheme, corev1.URISchemeHTTP)
}

// roundRequirements rounds what containers or Pods ask for, if they do.
func roundRequirements(r *corev1.ResourceRequirements) {
	if r != nil {
		roundUp(r.Limits)
		roundUp(r.Requests)
	}
}

// roundUp rounds quantities up to thousandths, the finest that is stored.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}
