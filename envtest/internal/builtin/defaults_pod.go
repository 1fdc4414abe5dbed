// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultPod fills a Pod: what every Pod template gets, and what only Pods get.
func defaultPod(pod *corev1.Pod) {
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
	// The two ways to write the address of a Pod say the same; the old one wins.
	switch {
	case pod.Status.PodIP == "" && len(pod.Status.PodIPs) > 0:
		pod.Status.PodIP = pod.Status.PodIPs[0].IP
	case pod.Status.PodIP != "" && (len(pod.Status.PodIPs) == 0 || pod.Status.PodIPs[0].IP != pod.Status.PodIP):
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
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
	defaultPodSpec(&template.Spec)
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
	})
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
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

// pullPolicy is Always for an image that may change under its name.
func pullPolicy(image string) corev1.PullPolicy {
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

// roundUp rounds quantities up to thousandths, the finest that is stored.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

// defaultVolume fills a volume; one without a source is an empty directory.
func defaultVolume(v *corev1.Volume) {
	if reflect.ValueOf(v.VolumeSource).IsZero() {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Secret != nil {
		missing(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		missing(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		missing(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	}
	if v.HostPath != nil {
		missing(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		missing(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}
	if v.Image != nil {
		unset(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	missing(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	each(p.Sources, func(s *corev1.VolumeProjection) {
		if s.DownwardAPI != nil {
			defaultDownward(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			missing(&s.ServiceAccountToken.ExpirationSeconds, int64(60*60))
		}
	})
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	each(items, func(f *corev1.DownwardAPIVolumeFile) {
		if f.FieldRef != nil {
			unset(&f.FieldRef.APIVersion, "v1")
		}
	})
}
