// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"io"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quotaplugin "k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	quotavalidation "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/kubernetes"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// ResourceQuotaName is kube-apiserver's name of the plugin.
const ResourceQuotaName = quotaplugin.PluginName

// quotaWorkers is how many namespaces are looked at together, as in kube-apiserver.
const quotaWorkers = 5

// notCounted are objects without a quota: they are not stored, or never had one.
var notCounted = map[schema.GroupResource]struct{}{
	corev1.Resource("bindings"):                           {},
	corev1.Resource("componentstatuses"):                  {},
	authenticationv1.Resource("tokenreviews"):             {},
	authenticationv1.Resource("selfsubjectreviews"):       {},
	authorizationv1.Resource("subjectaccessreviews"):      {},
	authorizationv1.Resource("selfsubjectaccessreviews"):  {},
	authorizationv1.Resource("localsubjectaccessreviews"): {},
	authorizationv1.Resource("selfsubjectrulesreviews"):   {},
	corev1.Resource("events"):                             {},
	eventsv1.Resource("events"):                           {},
}

// quotasIn returns the quotas of a namespace. The request before is counted already. The caller may change the slice and not
// what the quotas refer to.
func quotasIn(ctx context.Context, store *kind.Store, namespace string) ([]corev1.ResourceQuota, error) {
	list, err := kind.ListIn[*corev1.ResourceQuotaList](ctx, store, namespace)
	if err != nil {
		return nil, fmt.Errorf("error resolving quota: %w", err)
	}
	return list.Items, nil
}

// quotaAccess is how the library reads and writes quotas. The library passes no context: ctx is the server's.
type quotaAccess struct {
	ctx    context.Context
	store  *kind.Store
	client kubernetes.Interface
}

var _ quotaplugin.QuotaAccessor = quotaAccess{}

// GetQuotas implements quotaplugin.QuotaAccessor.
func (q quotaAccess) GetQuotas(namespace string) ([]corev1.ResourceQuota, error) {
	return quotasIn(q.ctx, q.store, namespace)
}

// UpdateQuotaStatus implements quotaplugin.QuotaAccessor. It is a request like those of others: webhooks see it.
func (q quotaAccess) UpdateQuotaStatus(changed *corev1.ResourceQuota) error {
	_, err := q.client.CoreV1().ResourceQuotas(changed.Namespace).UpdateStatus(q.ctx, changed, metav1.UpdateOptions{})
	return err
}

// resourceQuotas is the plugin ResourceQuota: the library of Kubernetes, which starts to work when a namespace with a quota is
// asked for. It is the last plugin, so that it counts nothing that another one refuses.
type resourceQuotas struct {
	*admission.Handler
	config   *quotaapi.Configuration
	store    *kind.Store
	measures map[schema.GroupResource]quota.Evaluator
	library  func() quotaplugin.Evaluator
}

var _ admission.ValidationInterface = (*resourceQuotas)(nil)

// NewResourceQuota makes the plugin; see Kinds.ResourceQuota.
func NewResourceQuota(
	ctx context.Context, stores kind.Stores, config io.Reader, client kubernetes.Interface, drained <-chan struct{},
) (admission.Interface, error) {
	configuration, err := quotaplugin.LoadConfiguration(config)
	if err != nil {
		return nil, err
	}
	if errs := quotavalidation.ValidateConfiguration(configuration); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	store, evaluators := stores[corev1.Resource("resourcequotas")], evaluators(stores)
	measures := make(map[schema.GroupResource]quota.Evaluator, len(evaluators))
	for _, evaluator := range evaluators {
		measures[evaluator.GroupResource()] = evaluator
	}
	return &resourceQuotas{
		Handler: admission.NewHandler(admission.Create, admission.Update), config: configuration, store: store, measures: measures,
		library: sync.OnceValue(func() quotaplugin.Evaluator {
			return quotaplugin.NewQuotaEvaluator(quotaAccess{ctx, store, client}, notCounted,
				generic.NewRegistry(evaluators), nil, configuration, quotaWorkers, drained)
		}),
	}, nil
}

func (*resourceQuotas) pluginName() string { return ResourceQuotaName }

// Validate implements admission.ValidationInterface.
func (q *resourceQuotas) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	_, ignored := notCounted[resource]
	switch evaluator := q.measures[resource]; {
	case ignored, a.GetNamespace() == "", resource == corev1.Resource("namespaces") && a.GetOperation() == admission.Create:
		return nil
	case evaluator != nil && !evaluator.Handles(a):
		return nil
	case evaluator == nil && (a.GetSubresource() != "" || a.GetOperation() != admission.Create): // is counted by the number
		return nil
	}
	if len(q.config.LimitedResources) == 0 {
		if quotas, err := quotasIn(ctx, q.store, a.GetNamespace()); err != nil || len(quotas) == 0 {
			return err
		}
	}
	return q.library().Evaluate(a)
}
