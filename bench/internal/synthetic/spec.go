// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const proxyImage = "registry.example.com/mesh/proxy:v2.14.1"

func (d draft) spec() corev1.PodSpec {
	token := "kube-api-access-" + word(d.random, 5, letters)
	preempt := corev1.PreemptLowerPriority
	return corev1.PodSpec{
		Volumes: d.volumes(token),
		Containers: []corev1.Container{
			d.main(token),
			d.proxy(token),
		},
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: new(int64(30)),
		DNSPolicy:                     corev1.DNSClusterFirst,
		NodeSelector:                  map[string]string{"kubernetes.io/os": "linux"},
		ServiceAccountName:            d.App,
		DeprecatedServiceAccount:      d.App,
		NodeName:                      d.Node,
		SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
		SchedulerName:                 corev1.DefaultSchedulerName,
		Tolerations:                   []corev1.Toleration{toleration("not-ready"), toleration("unreachable")},
		Priority:                      new(int32(0)),
		EnableServiceLinks:            new(true),
		PreemptionPolicy:              &preempt,
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: d.App}},
		}},
	}
}

func (d draft) image() string {
	return "registry.example.com/platform/" + d.App + ":" + d.version()
}

func toleration(taint string) corev1.Toleration {
	return corev1.Toleration{
		Key: "node.kubernetes.io/" + taint, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
	}
}

// volumes are the app's configuration, and the token that admission projects into
// every Pod.
func (d draft) volumes(token string) []corev1.Volume {
	mode := int32(0o644)
	return []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: d.App + "-config"}, DefaultMode: &mode,
		}}},
		{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: &mode,
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			},
		}}},
	}
}

// main is the app's own container.
func (d draft) main(token string) corev1.Container {
	own := d.container("main", d.image(), token)
	own.Args = []string{"--listen=:8080", "--config=/etc/config/config.yaml", fmt.Sprintf("--shard=%d", d.app%7)}
	own.Env = append(own.Env,
		corev1.EnvVar{Name: "LOG_LEVEL", Value: "info"},
		corev1.EnvVar{Name: "DATABASE_URL", Value: fmt.Sprintf("postgres://db-%03d.databases.svc:5432/app", d.app)},
		corev1.EnvVar{Name: "API_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: d.App + "-secrets"}, Key: "token",
		}}})
	own.VolumeMounts = append(own.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/etc/config", ReadOnly: true})
	own.LivenessProbe, own.ReadinessProbe = probe("/healthz", 15), probe("/readyz", 5)
	return own
}

// proxy is a sidecar that all Pods have.
func (d draft) proxy(token string) corev1.Container {
	own := d.container("proxy", proxyImage, token)
	own.Args = []string{"--cluster=" + d.App}
	return own
}

// container is what both have in common.
func (d draft) container(name, image, token string) corev1.Container {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(fmt.Sprintf("%dm", 100+d.app%10*50)),
		corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 128+d.app%8*64)),
	}
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Env:       []corev1.EnvVar{fromField("POD_NAME", "metadata.name"), fromField("POD_IP", "status.podIP")},
		Resources: corev1.ResourceRequirements{Limits: resources.DeepCopy(), Requests: resources},
		VolumeMounts: []corev1.VolumeMount{
			{Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

func probe(path string, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP,
		}},
		InitialDelaySeconds: delay, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}
