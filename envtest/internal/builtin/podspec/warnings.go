// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// WarnTemplate warns of a template that has changed, or with a path that is nil of a Pod.
func WarnTemplate(w *kind.Warnings, template *corev1.PodTemplateSpec, at *field.Path) {
	if !w.Changed || template == nil {
		return
	}
	p := podWarnings{Warnings: w, PodTemplateSpec: template, at: at, inSpec: at.Child("spec")}
	p.nodes()
	p.OutdatedAnnotations(p.Annotations, at, [][2]string{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	}...)
	p.volumes()
	p.doubles()
	p.WholeBytes(p.Spec.Overhead, p.inSpec.Child("overhead"), byteResources...)
	if s := p.Spec.SecurityContext; s == nil || s.SeccompProfile == nil {
		p.profile(corev1.SeccompPodAnnotationKey, outdatedSeccomp)
	}
	EveryContainer(&p.Spec, p.inSpec, p.container)
	p.ports()
	if seconds := p.Spec.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
		p.Add(p.inSpec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	p.affinity()
	if p.Spec.DNSConfig != nil {
		for i, server := range p.Spec.DNSConfig.Nameservers {
			p.IP(server, p.inSpec.Child("dnsConfig", "nameservers").Index(i))
		}
	}
	for i, alias := range p.Spec.HostAliases {
		p.IP(alias.IP, p.inSpec.Child("hostAliases").Index(i).Child("ip"))
	}
}

// podWarnings are the warnings for one Pod or template.
type podWarnings struct {
	*kind.Warnings
	*corev1.PodTemplateSpec
	at, inSpec *field.Path
}

// byteResources are resources without fractions.
var byteResources = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// nodes warns of outdated labels by which the Pod chooses its node, and of spreads and neighbours that no Pod counts for.
func (p *podWarnings) nodes() {
	for key := range p.Spec.NodeSelector {
		p.NodeLabel(key, p.inSpec.Child("nodeSelector").Key(key))
	}
	if affinity := NodeAffinity(p.Spec.Affinity); affinity != nil {
		at := p.inSpec.Child("affinity", "nodeAffinity")
		terms := RequiredTerms(affinity)
		for i := range terms {
			p.NodeTerm(&terms[i], at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
		}
		for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
			p.preferred(&affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference,
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
		}
	}
	for i, spread := range p.Spec.TopologySpreadConstraints {
		at := p.inSpec.Child("topologySpreadConstraints").Index(i)
		p.NodeKey(spread.TopologyKey, at.Child("topologyKey"))
		p.selects(spread.LabelSelector != nil, at)
	}
}

// preferred warns of a term with values that no label can have.
func (p *podWarnings) preferred(term *corev1.NodeSelectorTerm, at *field.Path) {
	p.NodeTerm(term, at)
	for i, e := range term.MatchExpressions {
		for j, value := range e.Values {
			for _, message := range validation.IsValidLabelValue(value) {
				p.Add(at.Child("matchExpressions").Index(i).Child("values").Index(j), "%s is invalid, %s", value, message)
			}
		}
	}
}

func (p *podWarnings) selects(given bool, at *field.Path) {
	if !given {
		p.Add(at.Child("labelSelector"), "a null labelSelector results in matching no pod")
	}
}

func (p *podWarnings) affinity() {
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range required {
			p.selects(required[i].LabelSelector != nil, at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))
		}
		for i := range preferred {
			p.selects(preferred[i].PodAffinityTerm.LabelSelector != nil,
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm"))
		}
	}
	if p.Spec.Affinity == nil {
		return
	}
	at := p.inSpec.Child("affinity")
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
}

// doubles warns of what is listed twice, or has no name.
func (p *podWarnings) doubles() {
	seen := sets.New[string]()
	for i, alias := range p.Spec.HostAliases {
		if seen.Has(alias.IP) {
			p.Add(p.inSpec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", alias.IP)
		}
		seen.Insert(alias.IP)
	}
	seen = sets.New[string]()
	for i, secret := range p.Spec.ImagePullSecrets {
		at := p.inSpec.Child("imagePullSecrets").Index(i).Child("name")
		if seen.Has(secret.Name) {
			p.Add(at, "duplicate name %q", secret.Name)
		}
		if secret.Name == "" {
			p.Add(at, "invalid empty name %q", "")
		}
		seen.Insert(secret.Name)
	}
}

const (
	outdatedSeccomp  = `non-functional in v1.27+; use the "seccompProfile" field instead`
	OutdatedAppArmor = `deprecated since v1.30; use the "appArmorProfile" field instead`
)

// profile warns of an annotation that has become a field.
func (p *podWarnings) profile(key, text string) {
	p.OutdatedAnnotations(p.Annotations, p.at, [2]string{key, text})
}

func (p *podWarnings) container(c *corev1.Container, at *field.Path) {
	security := c.SecurityContext
	if security == nil {
		security = &corev1.SecurityContext{}
	}
	if security.SeccompProfile == nil {
		p.profile(corev1.SeccompContainerAnnotationKeyPrefix+c.Name, outdatedSeccomp)
	}
	// A Pod gets this warning where the annotation becomes the field.
	if p.at != nil && security.AppArmorProfile == nil {
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		pod := p.Spec.SecurityContext
		if pod == nil || pod.AppArmorProfile == nil || !apiequality.Semantic.DeepEqual(pod.AppArmorProfile, AppArmorOf(p.Annotations[key])) {
			p.profile(key, OutdatedAppArmor)
		}
	}
	p.WholeBytes(c.Resources.Limits, at.Child("resources", "limits"), byteResources...)
	p.WholeBytes(c.Resources.Requests, at.Child("resources", "requests"), byteResources...)
	seen := sets.New[string]()
	for i, e := range c.Env {
		earlier := "$(" + e.Name + ")"
		extends := e.ValueFrom == nil && e.Value != earlier && strings.Contains(e.Value, earlier)
		if seen.Has(e.Name) && !extends {
			p.Add(at.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		seen.Insert(e.Name)
	}
}

// ports warns of ports that are defined twice, in one container or in several.
func (p *podWarnings) ports() {
	type definition struct {
		corev1.ContainerPort
		at *field.Path
	}
	var earlier []definition
	names := map[string]*field.Path{}
	EveryContainer(&p.Spec, p.inSpec, func(c *corev1.Container, at *field.Path) {
		for i, port := range c.Ports {
			at := at.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				p.Add(at, "hostIP set without hostPort: %+v", port)
			}
			for _, other := range earlier {
				if how := meets(&port, &other.ContainerPort); how != "" {
					p.Add(at, "%s port definition with %s", how, other.at)
				}
			}
			earlier = append(earlier, definition{port, at})
			if first, ok := names[port.Name]; ok && port.Name != "" {
				p.Add(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, first, first)
			} else {
				names[port.Name] = at
			}
		}
	})
}

// meets says how two ports of a Pod are in each other's way, if they are.
func meets(a, b *corev1.ContainerPort) string {
	switch {
	case a.ContainerPort != b.ContainerPort || a.Protocol != b.Protocol:
		return ""
	case a.HostIP == b.HostIP && a.HostPort == b.HostPort:
		return "duplicate"
	case a.HostPort == 0 || b.HostPort == 0:
		return "overlapping"
	case a.HostPort == b.HostPort && (a.HostIP == "") != (b.HostIP == ""):
		return "dangerously ambiguous"
	}
	return ""
}

// outdatedVolumes are volumes that nothing mounts any more, by their field.
var outdatedVolumes = map[string]string{
	"cephfs":               "deprecated in v1.28, non-functional in v1.31+",
	"flocker":              "deprecated in v1.22, non-functional in v1.25+",
	"gitRepo":              "deprecated in v1.11, and disabled by default in v1.33+",
	"glusterfs":            "deprecated in v1.25, non-functional in v1.26+",
	"photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
	"quobyte":              "deprecated in v1.22, non-functional in v1.25+",
	"rbd":                  "deprecated in v1.28, non-functional in v1.31+",
	"scaleIO":              "deprecated in v1.16, non-functional in v1.22+",
	"storageos":            "deprecated in v1.22, non-functional in v1.25+",
}

// WarnVolumeSource warns of an outdated one. source is a struct of pointers.
func WarnVolumeSource(w *kind.Warnings, source any, at *field.Path) {
	v := reflect.ValueOf(source)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if text, ok := outdatedVolumes[name]; ok && !v.Field(i).IsNil() {
			w.Add(at.Child(strings.Replace(name, "storageos", "storageOS", 1)), "%s", text) // as a kube-apiserver names it
		}
	}
}
