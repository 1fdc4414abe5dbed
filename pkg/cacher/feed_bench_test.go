// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/cacher"
	toolscache "k8s.io/client-go/tools/cache"
)

var (
	coreScheme = sync.OnceValue(func() *runtime.Scheme {
		scheme := runtime.NewScheme()
		utilruntime.Must(corev1.AddToScheme(scheme))
		return scheme
	})
	coreCodec = sync.OnceValue(func() runtime.Codec {
		pb := protobuf.NewSerializer(coreScheme(), coreScheme())
		return serializer.NewCodecFactory(coreScheme()).CodecForVersions(pb, pb, corev1.SchemeGroupVersion, corev1.SchemeGroupVersion)
	})
)

// feed is a storage that costs nothing: it lists Pods that it makes. A benchmark writes into its
// one watch, a channel. Methods that Cachers do not call are nil.
type feed struct {
	storage.Interface
	list     []*corev1.Pod
	revision atomic.Uint64
	events   chan watch.Event
}

// newFeed returns a feed of n Pods.
func newFeed(n int) *feed {
	f := &feed{events: make(chan watch.Event, 1024)}
	for i := range n {
		f.list = append(f.list, servicePod(i))
	}
	f.revision.Store(uint64(n))
	return f
}

// update writes the Pod with number i modulo their count.
func (f *feed) update(i int) {
	pod := *f.list[i%len(f.list)]
	pod.ResourceVersion = strconv.FormatUint(f.revision.Add(1), 10)
	f.events <- watch.Event{Type: watch.Modified, Object: &pod}
}

// watch opens a watch of everything from now on.
func (f *feed) watch(b *testing.B, store storage.Interface) watch.Interface {
	b.Helper()
	w, err := f.open(b.Context(), store)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func (f *feed) open(ctx context.Context, store storage.Interface) (watch.Interface, error) {
	return store.Watch(ctx, podPrefix, storage.ListOptions{
		ResourceVersion: strconv.FormatUint(f.revision.Load(), 10), Predicate: storage.Everything, Recursive: true,
	})
}

func (f *feed) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// GetList gives all Pods, each with memory of its own as a decoder makes it.
func (f *feed) GetList(_ context.Context, _ string, _ storage.ListOptions, into runtime.Object) error {
	list := into.(*corev1.PodList)
	list.ResourceVersion = strconv.FormatUint(f.revision.Load(), 10)
	list.Items = make([]corev1.Pod, len(f.list))
	for i, pod := range f.list {
		encoded, err := pod.Marshal()
		if err == nil {
			err = list.Items[i].Unmarshal(encoded)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *feed) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return watch.NewProxyWatcher(f.events), nil
}

func (f *feed) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return f.revision.Load(), nil
}
func (f *feed) RequestWatchProgress(context.Context) error          { return nil }
func (f *feed) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }
func (f *feed) CompactRevision() int64                              { return 0 }
func (f *feed) ReadinessCheck() error                               { return nil }

// IsWatchListSemanticsUnSupported tells Reflectors to list.
func (f *feed) IsWatchListSemanticsUnSupported() bool { return true }

// config configures a Cacher in front of the feed as kube-apiserver does for Pods.
func (f *feed) config() upstream.Config {
	return upstream.Config{
		Storage: f, GroupResource: pods, ResourcePrefix: podPrefix,
		KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(podPrefix, obj) },
		GetAttrsFunc: servicePodAttributes,
		IndexerFuncs: storage.IndexerFuncs{"spec.nodeName": func(obj runtime.Object) string { return obj.(*corev1.Pod).Spec.NodeName }},
		Indexers: &toolscache.Indexers{
			storage.FieldIndex("spec.nodeName"):      func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil },
			storage.FieldIndex("metadata.namespace"): func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Namespace}, nil },
		},
		NewFunc:     func() runtime.Object { return &corev1.Pod{} },
		NewListFunc: func() runtime.Object { return &corev1.PodList{} },
		Codec:       coreCodec(),
	}
}

// servicePodAttributes has the fields by which kube-apiserver selects Pods.
func servicePodAttributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("%T is not a Pod", obj)
	}
	return pod.Labels, fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace,
		"spec.nodeName": pod.Spec.NodeName, "spec.restartPolicy": string(pod.Spec.RestartPolicy),
		"spec.schedulerName": pod.Spec.SchedulerName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"spec.hostNetwork": strconv.FormatBool(pod.Spec.HostNetwork), "status.phase": string(pod.Status.Phase),
		"status.podIP": pod.Status.PodIP, "status.nominatedNodeName": pod.Status.NominatedNodeName,
	}, nil
}

// servicePod returns a Pod of the size of a real one, of one of a thousand Deployments.
func servicePod(i int) *corev1.Pod {
	app, at := fmt.Sprintf("service-%04d", i%1000), metav1.Unix(1_790_000_000+int64(i), 0)
	hash := fmt.Sprintf("%010x", (i%1000)*7919)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%s-%06d", app, hash, i), GenerateName: app + "-" + hash + "-", Namespace: fmt.Sprintf("team-%03d", i%500),
		UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)), ResourceVersion: strconv.Itoa(i + 1), CreationTimestamp: at,
		Labels: map[string]string{
			"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-production",
			"app.kubernetes.io/version": "v1.2.3", "pod-template-hash": hash,
		},
		Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": strings.Repeat(hash, 6)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: types.UID(hash)}},
	}}
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		written := `{"f:spec":{"f:containers":{` + strings.Repeat(`"k:{\"name\":\"`+app+`\"}":{".":{},"f:image":{},"f:env":{".":{}}},`, 8) + `"f:dnsPolicy":{}}}}`
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(written),
		})
	}
	for _, name := range []string{app, "proxy"} {
		addContainer(pod, name, at)
	}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName, pod.Spec.DNSPolicy = fmt.Sprintf("node-%04d", i%5000), app, "ClusterFirst"
	pod.Spec.RestartPolicy, pod.Spec.SchedulerName = "Always", "default-scheduler"
	pod.Status.Phase, pod.Status.PodIP, pod.Status.StartTime = "Running", fmt.Sprintf("10.%d.%d.%d", i/65_536, i/256%256, i%256), &at
	for _, condition := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: "True", LastTransitionTime: at})
	}
	return pod
}

func addContainer(pod *corev1.Pod, name string, at metav1.Time) {
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: name, Image: "registry.example.com/" + name + ":v1.2.3", Args: []string{"--listen=:8080", "--config=/etc/config/config.yaml"},
		Env: []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"},
		}}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
		},
		Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}},
	})
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: name, Ready: true, Image: "registry.example.com/" + name + ":v1.2.3", ImageID: "sha256:" + strings.Repeat("0123456789abcdef", 4),
		ContainerID: "containerd://" + strings.Repeat(string(pod.UID[:8]), 8),
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
	})
}
