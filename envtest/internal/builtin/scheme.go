// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/autoscaling"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/connect"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/events"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/serviceaccount"
	"github.com/tarn-dev/tarn/envtest/internal/openapi"
)

// Scheme returns the scheme of the built-in kinds: the external types of k8s.io/api, which are registered as the internal
// version of their group too, so that the server stores and admits the same types as it serves; their defaults, field
// labels and conversions; and the meta types. It is built once and must not be changed.
//
// Never give it to a client: with two versions for each type, clients cannot tell which one an object has.
func Scheme() *runtime.Scheme { return sharedScheme() }

// Codecs returns the codecs of Scheme: JSON, YAML and protobuf.
func Codecs() serializer.CodecFactory { return sharedCodecs() }

// ParameterCodec returns the codec for query parameters of Scheme.
func ParameterCodec() runtime.ParameterCodec { return sharedParameterCodec() }

// OpenAPIDefinitions returns the definition of each type that is reachable from a served kind, by its OpenAPI model name.
func OpenAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return openapi.GetOpenAPIDefinitions(ref)
}

var (
	sharedScheme = sync.OnceValue(buildScheme)
	sharedCodecs = sync.OnceValue(func() serializer.CodecFactory {
		return serializer.NewCodecFactory(Scheme(),
			serializer.WithStreamingCollectionEncodingToJSON(),
			serializer.WithStreamingCollectionEncodingToProtobuf())
	})
	sharedParameterCodec = sync.OnceValue(func() runtime.ParameterCodec { return runtime.NewParameterCodec(Scheme()) })
)

// buildScheme makes the scheme from k8s.io/api and the table. A failure is a mistake in this package, found by any test.
func buildScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, admissionregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme,
		autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme,
		discoveryv1.AddToScheme, eventsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme, authorizationv1.AddToScheme, certificatesv1.AddToScheme,
		flowcontrolv1.AddToScheme, nodev1.AddToScheme, resourcev1.AddToScheme,
		apiregistrationv1.AddToScheme, events.AddEventConversions, autoscaling.AddAutoscalerConversions, core.AddEvictionConversions,
		connect.AddConnectParameters,
	} {
		utilruntime.Must(add(scheme))
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})

	// The first version of a group to claim a kind defines its internal form. Events are stored in their core form.
	events.RegisterInternalEvents(scheme)
	for _, gv := range []schema.GroupVersion{
		corev1.SchemeGroupVersion, admissionregistrationv1.SchemeGroupVersion, appsv1.SchemeGroupVersion,
		authenticationv1.SchemeGroupVersion, autoscalingv2.SchemeGroupVersion, autoscalingv1.SchemeGroupVersion,
		batchv1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion,
		networkingv1.SchemeGroupVersion, policyv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion,
		schedulingv1.SchemeGroupVersion, storagev1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion,
		certificatesv1.SchemeGroupVersion, flowcontrolv1.SchemeGroupVersion, nodev1.SchemeGroupVersion, resourcev1.SchemeGroupVersion,
		apiregistrationv1.SchemeGroupVersion,
	} {
		registerInternal(scheme, gv)
	}
	scheme.AddTypeDefaultingFunc(&autoscalingv1.HorizontalPodAutoscaler{}, func(o any) {
		kind.Missing(&o.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MinReplicas, 1)
	})
	scheme.AddTypeDefaultingFunc(&authenticationv1.TokenRequest{}, func(o any) { serviceaccount.DefaultTokenRequest(o.(*authenticationv1.TokenRequest)) })
	for _, k := range kinds() {
		utilruntime.Must(registerKind(scheme, k))
	}
	return scheme
}

// registerInternal registers the types of one external version as their group's internal version.
func registerInternal(scheme *runtime.Scheme, gv schema.GroupVersion) {
	internal := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	for name, t := range scheme.KnownTypes(gv) {
		// Options and watch events are in each version too; they belong to the meta group.
		if strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") || scheme.Recognizes(internal.WithKind(name)) {
			continue
		}
		scheme.AddKnownTypeWithName(internal.WithKind(name), reflect.New(t).Interface().(runtime.Object))
	}
}

// registerKind adds the defaults and field labels of one row.
func registerKind(scheme *runtime.Scheme, k *kind.Kind) error {
	obj, err := scheme.New(k.GVK)
	if err != nil {
		return fmt.Errorf("the table names %s, which no package of API types registers: %w", k.GVK, err)
	}
	if k.Hooks.Defaults != nil {
		addDefaults(scheme, k, obj)
	}
	if k.Fields.Convert == nil {
		return nil
	}
	return scheme.AddFieldLabelConversionFunc(k.GVK, k.Fields.Convert)
}

// addDefaults registers a row's defaults for its type and, item by item, for its list type.
func addDefaults(scheme *runtime.Scheme, k *kind.Kind, obj runtime.Object) {
	scheme.AddTypeDefaultingFunc(obj, func(o any) { k.Hooks.Defaults(o.(runtime.Object)) })
	list, err := scheme.New(k.ListGVK())
	utilruntime.Must(err)
	scheme.AddTypeDefaultingFunc(list, func(o any) { eachItem(o.(runtime.Object), k.Hooks.Defaults) })
}

// eachItem calls f with a pointer to each item of a typed list.
func eachItem(list runtime.Object, f func(runtime.Object)) {
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	for i := range items.Len() {
		f(items.Index(i).Addr().Interface().(runtime.Object))
	}
}
