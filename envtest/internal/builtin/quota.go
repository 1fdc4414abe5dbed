// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quotaplugin "k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	quotavalidation "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/client-go/kubernetes"
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

// quotaReads reads the quotas of one server. It reads the watch cache, in memory: most requests ask, and few namespaces have
// quotas. But it never reads an older state than this server has written, so that a quota is in force when its status is
// written and no more when it is deleted, and a request sees what the one before it counted. What other servers of the same etcd write is seen a little
// later, as by a kube-apiserver's informer; a conflict then tells. It is safe for concurrent use.
type quotaReads struct {
	store   *genericregistry.Store
	written atomic.Uint64 // the last resource version of a quota that this server wrote
}

// newQuotaReads notes what is written through the store and through subresources that are made of it afterwards.
func newQuotaReads(store *genericregistry.Store) *quotaReads {
	q := &quotaReads{store: store}
	store.AfterCreate = func(obj runtime.Object, _ *metav1.CreateOptions) { q.note(obj) }
	store.AfterUpdate = func(obj runtime.Object, _ *metav1.UpdateOptions) { q.note(obj) }
	store.AfterDelete = func(obj runtime.Object, _ *metav1.DeleteOptions) { q.note(obj) } // with the version of its end
	return q
}

func (q *quotaReads) note(obj runtime.Object) {
	version, err := strconv.ParseUint(mustBe[*corev1.ResourceQuota](obj).ResourceVersion, 10, 64)
	if err != nil {
		return // a dry run
	}
	for before := q.written.Load(); before < version; before = q.written.Load() {
		if q.written.CompareAndSwap(before, version) {
			return
		}
	}
}

// in returns the quotas of a namespace. The caller may change the slice and not what the quotas refer to.
func (q *quotaReads) in(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	list, err := q.store.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{
		ResourceVersion: strconv.FormatUint(q.written.Load(), 10),
	})
	if err != nil {
		return nil, fmt.Errorf("error resolving quota: %w", err)
	}
	return mustBe[*corev1.ResourceQuotaList](list).Items, nil
}

// quotaAccess is how the library reads and writes quotas. The library passes no context: ctx is the server's.
type quotaAccess struct {
	ctx    context.Context
	reads  *quotaReads
	client kubernetes.Interface
}

var _ quotaplugin.QuotaAccessor = quotaAccess{}

// GetQuotas implements quotaplugin.QuotaAccessor.
func (q quotaAccess) GetQuotas(namespace string) ([]corev1.ResourceQuota, error) {
	return q.reads.in(q.ctx, namespace)
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
	reads    *quotaReads
	measures map[schema.GroupResource]quota.Evaluator
	library  func() quotaplugin.Evaluator
}

var _ admission.ValidationInterface = (*resourceQuotas)(nil)

// ResourceQuota makes the plugin ResourceQuota with its configuration, which may be nil, and a client by which the server asks
// itself until ctx ends. The goroutines of the plugin end when drained is closed, which must be after the last request.
func (k *Kinds) ResourceQuota(
	ctx context.Context, config io.Reader, client kubernetes.Interface, drained <-chan struct{},
) (admission.Interface, error) {
	configuration, err := quotaplugin.LoadConfiguration(config)
	if err != nil {
		return nil, err
	}
	if errs := quotavalidation.ValidateConfiguration(configuration); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	evaluators := k.evaluators()
	measures := make(map[schema.GroupResource]quota.Evaluator, len(evaluators))
	for _, evaluator := range evaluators {
		measures[evaluator.GroupResource()] = evaluator
	}
	return &resourceQuotas{
		Handler: admission.NewHandler(admission.Create, admission.Update), config: configuration, reads: k.quotas, measures: measures,
		library: sync.OnceValue(func() quotaplugin.Evaluator {
			return quotaplugin.NewQuotaEvaluator(quotaAccess{ctx, k.quotas, client}, notCounted,
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
		if quotas, err := q.reads.in(ctx, a.GetNamespace()); err != nil || len(quotas) == 0 {
			return err
		}
	}
	return q.library().Evaluate(a)
}
