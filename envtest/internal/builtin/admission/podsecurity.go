// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	podsecurity "k8s.io/pod-security-admission/admission"
	podsecurityload "k8s.io/pod-security-admission/admission/api/load"
	podsecurityapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// PodSecurityName is kube-apiserver's name of the plugin.
const PodSecurityName = "PodSecurity"

// podSecurity is the plugin PodSecurity: the library of Kubernetes, on the stores of one server.
type podSecurity struct {
	*admission.Handler
	library *podsecurity.Admission
}

var _ admission.ValidationInterface = podSecurity{}

// NewPodSecurity makes the plugin with its configuration, which may be nil.
func NewPodSecurity(stores kind.Stores, config io.Reader) (admission.Interface, error) {
	configuration, err := podsecurityload.LoadFromReader(config)
	if err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	library := &podsecurity.Admission{
		Configuration: configuration, Evaluator: evaluator, Metrics: unmetered{}, PodSpecExtractor: podsecurity.DefaultPodSpecExtractor{},
		NamespaceGetter: namespacesOf{stores[corev1.Resource("namespaces")]}, PodLister: podsOf{stores[corev1.Resource("pods")]},
	}
	if err := library.CompleteConfiguration(); err != nil {
		return nil, fmt.Errorf("%s configuration error: %w", PodSecurityName, err)
	}
	if err := library.ValidateConfiguration(); err != nil {
		return nil, fmt.Errorf("%s invalid: %w", PodSecurityName, err)
	}
	return podSecurity{admission.NewHandler(admission.Create, admission.Update), library}, nil
}

func (podSecurity) pluginName() string { return PodSecurityName }

// Validate implements admission.ValidationInterface.
func (p podSecurity) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if resource != corev1.Resource("pods") && resource != corev1.Resource("namespaces") && !p.library.PodSpecExtractor.HasPodSpec(resource) {
		return nil
	}
	response := p.library.Validate(ctx, &podsecurityapi.AttributesRecord{
		Name: a.GetName(), Namespace: a.GetNamespace(), Kind: a.GetKind(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
		Operation: admissionv1.Operation(a.GetOperation()), Object: a.GetObject(), OldObject: a.GetOldObject(), Username: a.GetUserInfo().GetName(),
	})
	for _, text := range response.Warnings {
		warning.AddWarning(ctx, "", text)
	}
	for key := range maps.Keys(response.AuditAnnotations) {
		audit.AddAuditAnnotation(ctx, podsecurityapi.AuditAnnotationPrefix+key, response.AuditAnnotations[key])
	}
	if response.Allowed {
		return nil
	}
	refused, ok := admission.NewForbidden(a, errors.New("Not allowed by PodSecurity")).(*apierrors.StatusError) //lint:ignore ST1005 its words
	if !ok || response.Result == nil {
		return refused
	}
	refused.ErrStatus.Message, refused.ErrStatus.Reason = response.Result.Message, response.Result.Reason
	if response.Result.Details != nil {
		refused.ErrStatus.Details = response.Result.Details
	}
	if response.Result.Code != 0 {
		refused.ErrStatus.Code = response.Result.Code
	}
	return refused
}

// namespacesOf and podsOf read what the watch cache has.
type (
	namespacesOf struct{ store *kind.Store }
	podsOf       struct{ store *kind.Store }
)

func (n namespacesOf) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return kind.Cached[*corev1.Namespace](ctx, n.store, name)
}

func (p podsOf) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	list, err := kind.ListIn[*corev1.PodList](ctx, p.store, namespace)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	kind.Each(list.Items, func(pod *corev1.Pod) { pods = append(pods, pod) })
	return pods, nil
}

// unmetered drops metrics: they belong to the process, which may have many servers.
type unmetered struct{}

var _ metrics.Recorder = unmetered{}

func (unmetered) RecordEvaluation(metrics.Decision, podsecurityapi.LevelVersion, metrics.Mode, podsecurityapi.Attributes) {
}

func (unmetered) RecordExemption(podsecurityapi.Attributes) {}

func (unmetered) RecordError(bool, podsecurityapi.Attributes) {}
