// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/scheduling"
)

// Some of what clients see of an object on a kube-apiserver is the work of admission plugins that are on by default. These
// are here: LimitRanger, TaintNodesByCondition, Priority, DefaultTolerationSeconds, DefaultStorageClass,
// StorageObjectInUseProtection, PersistentVolumeClaimResize, RuntimeClass, those of certificate requests, and
// DefaultIngressClass.

// NewPlugins returns the admission plugins of the built-in kinds, in kube-apiserver's order (its
// pkg/kubeapiserver/options/plugins.go): policies and webhooks come after them. peer finds the stores of one server.
func NewPlugins(peer func(schema.GroupResource) *kind.Store, access *kind.Access) []admission.Interface {
	created := admission.NewHandler(admission.Create)
	written := admission.NewHandler(admission.Create, admission.Update)
	classes := priorityClasses{peer(scheduling.PriorityClassResource)}
	updated, requests := admission.NewHandler(admission.Update), certificatesv1.Resource("certificatesigningrequests")
	signer := signers{access}
	runtimes := runtimeClasses{peer(nodev1.Resource("runtimeclasses"))}
	limits := limitRanges{peer(corev1.Resource("limitranges"))}
	storages := storageClasses{peer(storagev1.Resource("storageclasses"))}
	ingresses := ingressClasses{peer(networkingv1.Resource("ingressclasses"))}
	pods, claims := corev1.Resource("pods"), corev1.Resource("persistentvolumeclaims")
	return []admission.Interface{
		plugin{name: "LimitRanger", Handler: written, resource: pods, admit: limits.fill, validate: limits.checkPod},
		plugin{name: "LimitRanger", Handler: written, resource: claims, validate: limits.checkClaim},
		plugin{name: "TaintNodesByCondition", Handler: created, resource: corev1.Resource("nodes"), admit: taintNewNode},
		plugin{name: "Priority", Handler: written, resource: pods, admit: classes.prioritize},
		plugin{name: "Priority", Handler: written, resource: scheduling.PriorityClassResource, validate: classes.checkDefault},
		plugin{name: "DefaultTolerationSeconds", Handler: written, resource: pods, admit: tolerateNodeTroubles},
		plugin{name: "DefaultStorageClass", Handler: created, resource: claims, admit: storages.setDefault},
		plugin{name: "StorageObjectInUseProtection", Handler: created, resource: corev1.Resource("persistentvolumes"), admit: protect(volumeProtection)},
		plugin{name: "StorageObjectInUseProtection", Handler: created, resource: claims, admit: protect(claimProtection)},
		plugin{name: "StorageObjectInUseProtection", Handler: created, resource: storagev1.Resource("volumeattributesclasses"), admit: protect(attributesProtection)},
		plugin{name: "PersistentVolumeClaimResize", Handler: updated, resource: claims, validate: storages.checkResize},
		plugin{name: "RuntimeClass", Handler: created, resource: pods, admit: runtimes.apply, validate: runtimes.check},
		plugin{name: "CertificateApproval", Handler: updated, resource: requests, subresource: "approval", validate: signer.approves},
		plugin{name: "CertificateSigning", Handler: updated, resource: requests, subresource: "status", validate: signer.signs},
		plugin{name: "CertificateSubjectRestriction", Handler: created, resource: requests, validate: noMasters},
		plugin{name: "DefaultIngressClass", Handler: created, resource: networkingv1.Resource("ingresses"), admit: ingresses.setDefault},
	}
}

// plugin is an admission plugin for the objects of one kind, or for one of their subresources. The former sees no subresources:
// their objects are of other kinds, or their strategies take only a part of what it would fill in.
type plugin struct {
	*admission.Handler
	name     string // in kube-apiserver
	resource schema.GroupResource
	// subresource is what the plugin is about instead of the objects themselves.
	subresource string
	admit       func(context.Context, admission.Attributes) error // changes the object; may be nil
	validate    func(context.Context, admission.Attributes) error // changes nothing; may be nil
}

var (
	_ admission.MutationInterface   = plugin{}
	_ admission.ValidationInterface = plugin{}
)

// PluginName is kube-apiserver's name for a plugin of this package. Several may be parts of one there.
func PluginName(one admission.Interface) string {
	return one.(interface{ pluginName() string }).pluginName()
}

func (p plugin) pluginName() string { return p.name }

// Admit implements admission.MutationInterface.
func (p plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.admit == nil || !p.concerns(a) {
		return nil
	}
	return p.admit(ctx, a)
}

// Validate implements admission.ValidationInterface.
func (p plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.validate == nil || !p.concerns(a) {
		return nil
	}
	return p.validate(ctx, a)
}

func (p plugin) concerns(a admission.Attributes) bool {
	return a.GetResource().GroupResource() == p.resource && a.GetSubresource() == p.subresource
}

// evictionDelay is how long a Pod tolerates that its node is gone, in seconds.
const evictionDelay = 300

// tolerateNodeTroubles gives a Pod the tolerations that delay its eviction. A PUT of a manifest without them gets them again.
func tolerateNodeTroubles(_ context.Context, a admission.Attributes) error {
	pod := kind.MustBe[*corev1.Pod](a.GetObject())
	named := pod.Spec.Tolerations
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerated := slices.ContainsFunc(named, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if tolerated {
			continue
		}
		seconds := int64(evictionDelay)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return nil
}

// taintNewNode keeps Pods off a node until something removes the taint.
func taintNewNode(_ context.Context, a admission.Attributes) error {
	node := kind.MustBe[*corev1.Node](a.GetObject())
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return nil
}

// The finalizers that keep volumes and claims while they are in use. As with a bare kube-apiserver, nobody removes them
// here by itself.
const (
	volumeProtection     = "kubernetes.io/pv-protection"
	claimProtection      = "kubernetes.io/pvc-protection"
	attributesProtection = "kubernetes.io/vac-protection"
)

// protect returns a function that adds a finalizer.
func protect(finalizer string) func(context.Context, admission.Attributes) error {
	return func(_ context.Context, a admission.Attributes) error {
		obj := a.GetObject().(metav1.Object)
		if finalizers := obj.GetFinalizers(); !slices.Contains(finalizers, finalizer) {
			obj.SetFinalizers(append(finalizers, finalizer))
		}
		return nil
	}
}
