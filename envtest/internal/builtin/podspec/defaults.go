// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// DefaultTemplate fills a Pod template.
func DefaultTemplate(template *corev1.PodTemplateSpec) {
	DropOldAnnotations(template.Annotations)
	DefaultPodSpec(&template.Spec)
}

// DropOldAnnotations drops the annotations that had the init containers before there was a field.
func DropOldAnnotations(annotations map[string]string) {
	for _, stage := range []string{"alpha", "beta"} {
		delete(annotations, "pod."+stage+".kubernetes.io/init-containers")
		delete(annotations, "pod."+stage+".kubernetes.io/init-container-statuses")
	}
}

// DefaultPodSpec fills what Pods and Pod templates have in common.
func DefaultPodSpec(spec *corev1.PodSpec) {
	kind.Unset(&spec.DNSPolicy, corev1.DNSClusterFirst)
	kind.Unset(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	kind.Unset(&spec.SchedulerName, corev1.DefaultSchedulerName)
	kind.Missing(&spec.SecurityContext, corev1.PodSecurityContext{})
	kind.Missing(&spec.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	// Two names for one field.
	kind.Unset(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	kind.Each(spec.Volumes, defaultVolume)
	kind.Each(spec.InitContainers, defaultContainer)
	kind.Each(spec.Containers, defaultContainer)
	kind.Each(spec.EphemeralContainers, func(c *corev1.EphemeralContainer) {
		defaultContainer((*corev1.Container)(&c.EphemeralContainerCommon))
	})
	RoundUp(spec.Overhead)
	RoundRequirements(spec.Resources)
}

func defaultContainer(c *corev1.Container) {
	kind.Unset(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	kind.Unset(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	kind.Unset(&c.ImagePullPolicy, pullPolicy(c.Image))
	kind.Each(c.Ports, func(p *corev1.ContainerPort) { kind.Unset(&p.Protocol, corev1.ProtocolTCP) })
	kind.Each(c.Env, func(e *corev1.EnvVar) {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			kind.Unset(&e.ValueFrom.FieldRef.APIVersion, "v1")
		}
		if e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil {
			kind.Missing(&e.ValueFrom.FileKeyRef.Optional, false)
		}
	})
	RoundRequirements(&c.Resources)
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
	kind.Unset(&probe.TimeoutSeconds, 1)
	kind.Unset(&probe.PeriodSeconds, 10)
	kind.Unset(&probe.SuccessThreshold, 1)
	kind.Unset(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		kind.Missing(&probe.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get == nil {
		return
	}
	kind.Unset(&get.Path, "/")
	kind.Unset(&get.Scheme, corev1.URISchemeHTTP)
}

// RoundRequirements rounds what containers or Pods ask for, if they do.
func RoundRequirements(r *corev1.ResourceRequirements) {
	if r != nil {
		RoundUp(r.Limits)
		RoundUp(r.Requests)
	}
}

// RoundUp rounds quantities up to thousandths, the finest that is stored.
func RoundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}
