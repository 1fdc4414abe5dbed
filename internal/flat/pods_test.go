// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// cluster makes the Pods of a synthetic cluster: like those of real Deployments, drawn from
// 1,000 apps in 100 namespaces on 2,000 nodes.
type cluster struct{ random *rand.Rand }

func newCluster(seed uint64) *cluster { return &cluster{random: rand.New(rand.NewPCG(seed, 1))} }

const alphabet = "bcdfghjklmnpqrstvwxz2456789"

func (c *cluster) word(n int, letters string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[c.random.IntN(len(letters))]
	}
	return string(b)
}

func (c *cluster) uid() string {
	h := c.word(32, "0123456789abcdef")
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// fixed returns letters that depend on what alone.
func fixed(what string, app, n int) string {
	r := newCluster(uint64(len(what))<<32 | uint64(app) + 7)
	return r.word(n, "0123456789abcdef")
}

// pod returns Pod number i as the API server's protobuf gives it to a client.
func (c *cluster) pod(i int) *corev1.Pod {
	app, node := c.random.IntN(1000), c.random.IntN(2000)
	name := fmt.Sprintf("service-%03d", app)
	hash := fixed("hash", app, 10)
	at := metav1.NewTime(time.Unix(1_790_000_000+int64(i%1_000_000), 0))
	own := &corev1.Pod{
		ObjectMeta: c.podMeta(i, app, name, hash, at),
		Spec:       c.podSpec(app, node, name),
	}
	own.Status = c.podStatus(i, app, node, name, at)
	return own
}

func (c *cluster) podMeta(i, app int, name, hash string, at metav1.Time) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name:              name + "-" + hash + "-" + c.word(5, alphabet),
		GenerateName:      name + "-" + hash + "-",
		Namespace:         fmt.Sprintf("team-%02d", app%100),
		UID:               types.UID(c.uid()),
		ResourceVersion:   fmt.Sprint(100_000_000 + i),
		Generation:        1,
		CreationTimestamp: at,
		Labels: map[string]string{
			"app.kubernetes.io/name":      name,
			"app.kubernetes.io/instance":  name + "-production",
			"app.kubernetes.io/component": []string{"server", "worker", "gateway"}[app%3],
			"app.kubernetes.io/version":   fmt.Sprintf("v1.%d.%d", app%17, app%5),
			"topology.example.com/tier":   []string{"gold", "silver", "bronze"}[app%3],
			"pod-template-hash":           hash,
		},
		Annotations: map[string]string{
			"prometheus.io/scrape": "true",
			"prometheus.io/port":   "8080",
			"checksum/config":      fixed("checksum", app, 64),
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-" + hash,
			UID: types.UID(fixed("owner", app, 36)), Controller: &yes, BlockOwnerDeletion: &yes,
		}},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(specFields(hash))},
			{Manager: "kube-scheduler", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", Subresource: "status",
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"PodScheduled\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}}}}`)},
			{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", Subresource: "status", FieldsV1: metav1.NewFieldsV1(c.statusFields())},
		},
	}
}

// specFields is what the controller owns; it mentions the ReplicaSet.
func specFields(hash string) string {
	container := func(name string) string {
		return `"k:{\"name\":\"` + name + `\"}":{".":{},"f:args":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:httpGet":{".":{},"f:path":{}}},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{}}},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/config\"}":{".":{},"f:mountPath":{},"f:name":{}}}}`
	}
	return `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:generateName":{},"f:labels":{".":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"` + hash + `\"}":{}}},"f:spec":{"f:containers":{` + container("main") + `},"f:dnsPolicy":{},"f:restartPolicy":{},"f:serviceAccountName":{},"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{},"f:name":{}}}}}`
}

// statusFields is what the kubelet owns; it mentions the address of the Pod.
func (c *cluster) statusFields() string {
	condition := func(t string) string {
		return `"k:{\"type\":\"` + t + `\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}`
	}
	return `{"f:status":{"f:conditions":{` + condition("ContainersReady") + `,` + condition("Initialized") + `,` + condition("Ready") +
		`},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"` + c.address() + `\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`
}

func (c *cluster) address() string {
	return fmt.Sprintf("10.%d.%d.%d", c.random.IntN(255), c.random.IntN(255), c.random.IntN(255))
}

func probe(path string, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: "HTTP"}},
		InitialDelaySeconds: delay, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

func container(name, image, token string, app int) corev1.Container {
	no, yes := false, true
	cpu, memory := fmt.Sprintf("%dm", 100+app%10*50), fmt.Sprintf("%dMi", 128+app%8*64)
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:  []string{"--listen=:8080", "--config=/etc/config/config.yaml", fmt.Sprintf("--shard=%d", app%7)},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}, {Name: "metrics", ContainerPort: 9090, Protocol: "TCP"}},
		Env: []corev1.EnvVar{
			{Name: "LOG_LEVEL", Value: "info"},
			{Name: "DATABASE_URL", Value: fmt.Sprintf("postgres://db-%03d.databases.svc:5432/app", app)},
			{Name: "POD_NAME", ValueFrom: field("metadata.name")},
			{Name: "POD_NAMESPACE", ValueFrom: field("metadata.namespace")},
			{Name: "POD_IP", ValueFrom: field("status.podIP")},
			{Name: "API_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("service-%03d-secrets", app)}, Key: "token"}}},
		},
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/config", ReadOnly: true},
			{Name: "cache", MountPath: "/var/cache/app"},
			{Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		LivenessProbe: probe("/healthz", 15), ReadinessProbe: probe("/readyz", 5),
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// sidecar is smaller than the container of the app itself.
func sidecar(token string) corev1.Container {
	s := container("proxy", "registry.example.com/mesh/proxy:v2.14.1", token, 0)
	s.Env, s.Ports, s.LivenessProbe = s.Env[2:5], s.Ports[1:], nil
	return s
}

func image(app int) string {
	return fmt.Sprintf("registry.example.com/platform/service-%03d:v1.%d.%d", app, app%17, app%5)
}

func (c *cluster) podSpec(app, node int, name string) corev1.PodSpec {
	token := "kube-api-access-" + c.word(5, alphabet)
	seconds, grace, priority, mode := int64(300), int64(30), int32(0), int32(420)
	expiry, yes, links := int64(3607), true, true
	preempt := corev1.PreemptLowerPriority
	return corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name + "-config"}, DefaultMode: &mode}}},
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expiry, Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
			}}}},
		},
		Containers: []corev1.Container{
			container("main", image(app), token, app),
			sidecar(token),
		},
		RestartPolicy: "Always", TerminationGracePeriodSeconds: &grace, DNSPolicy: "ClusterFirst",
		ServiceAccountName: name, DeprecatedServiceAccount: name,
		NodeName:        fmt.Sprintf("node-%04d.eu-central-1.compute.internal", node),
		NodeSelector:    map[string]string{"kubernetes.io/os": "linux"},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes},
		SchedulerName:   "default-scheduler",
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
		},
		Priority: &priority, EnableServiceLinks: &links, PreemptionPolicy: &preempt,
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "ScheduleAnyway",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": name}},
		}},
	}
}

func (c *cluster) podStatus(i, app, node int, name string, at metav1.Time) corev1.PodStatus {
	yes := true
	ip := c.address()
	host := fmt.Sprintf("10.200.%d.%d", node/250, node%250)
	condition := func(t corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: "True", LastTransitionTime: at, ObservedGeneration: 1}
	}
	status := func(name, image string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Ready: true, Started: &yes, Image: image,
			ImageID:     "registry.example.com/platform/" + name + "@sha256:" + fixed("image"+name, app, 64),
			ContainerID: "containerd://" + c.word(64, "0123456789abcdef"),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		}
	}
	return corev1.PodStatus{
		ObservedGeneration: 1, Phase: "Running",
		Conditions: []corev1.PodCondition{condition("PodReadyToStartContainers"), condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")},
		HostIP:     host, HostIPs: []corev1.HostIP{{IP: host}}, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		StartTime: &at, QOSClass: "Guaranteed",
		ContainerStatuses: []corev1.ContainerStatus{status("main", image(app)), status("proxy", "registry.example.com/mesh/proxy:v2.14.1")},
	}
}

// wire returns the Pod as a client decodes it from protobuf: sharing no memory with others.
func wire(p *corev1.Pod) *corev1.Pod {
	b, err := p.Marshal()
	if err != nil {
		panic(err)
	}
	out := &corev1.Pod{}
	if err := out.Unmarshal(b); err != nil {
		panic(err)
	}
	return out
}

// content returns the Pod as a client decodes it from JSON into unstructured content.
func content(p *corev1.Pod) *unstructured.Unstructured {
	p = p.DeepCopy()
	p.APIVersion, p.Kind = "v1", "Pod"
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	out := &unstructured.Unstructured{}
	if _, _, err := unstructured.UnstructuredJSONScheme.Decode(b, nil, out); err != nil {
		panic(err)
	}
	return out
}
