// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// namespace returns a namespace.
func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// widgetsOf is the resource of widgetCRD in its first version.
func widgetsOf(group string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
}

// shared is an environment of its own, because these specs delete everything, with clients.
type shared struct {
	env    *envtest.Environment
	config *rest.Config
	kube   kubernetes.Interface
	dyn    dynamic.Interface
}

func newShared(ctx context.Context, opts envtest.Options) *shared {
	GinkgoHelper()
	onlyOurs()
	s := &shared{env: envtest.New(opts)}
	Expect(s.env.Start(ctx)).To(Succeed())
	DeferCleanup(func() { Expect(s.env.Stop()).To(Succeed()) })
	s.config = s.env.Config()
	s.config.QPS = -1
	s.kube, s.dyn = kubernetes.NewForConfigOrDie(s.config), dynamic.NewForConfigOrDie(s.config)
	return s
}

// fill makes a namespace with ConfigMaps. One has a finalizer.
func (s *shared) fill(ctx context.Context, ns string, n int) {
	GinkgoHelper()
	_, err := s.kube.CoreV1().Namespaces().Create(ctx, namespace(ns), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for i := range n {
		cm := configMap(fmt.Sprintf("cm-%d", i), fmt.Sprint(i))
		if i == 0 {
			cm.Finalizers = []string{"example.com/never"}
		}
		_, err := s.kube.CoreV1().ConfigMaps(ns).Create(ctx, cm, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// configMaps returns the versions of all ConfigMaps by their names.
func (s *shared) configMaps(ctx context.Context) map[string]string {
	GinkgoHelper()
	list, err := s.kube.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for _, cm := range list.Items {
		found[cm.Namespace+"/"+cm.Name] = cm.ResourceVersion
	}
	return found
}

var crdsResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// fillWidgets makes namespaces with widgets.
func (s *shared) fillWidgets(ctx context.Context, group string, namespaces, each int) {
	GinkgoHelper()
	for n := range namespaces {
		ns := fmt.Sprintf("w%d", n)
		_, err := s.kube.CoreV1().Namespaces().Create(ctx, namespace(ns), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range each {
			_, err := s.dyn.Resource(widgetsOf(group)).Namespace(ns).Create(ctx, widget(group, fmt.Sprintf("w-%d", i), 2), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

// widgets returns the UIDs of all widgets by their names.
func (s *shared) widgets(ctx context.Context, group string) map[string]types.UID {
	GinkgoHelper()
	list, err := s.dyn.Resource(widgetsOf(group)).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	found := map[string]types.UID{}
	for _, w := range list.Items {
		found[w.GetNamespace()+"/"+w.GetName()] = w.GetUID()
	}
	return found
}

// beginDeletion deletes the CRD of the widgets, and returns when the first of them is deleted. A server that has just read the
// CRD anew may end the watch for it: then there is another one.
func (s *shared) beginDeletion(ctx context.Context, group string) {
	GinkgoHelper()
	widgets := s.dyn.Resource(widgetsOf(group))
	w, err := widgets.Watch(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(s.dyn.Resource(crdsResource).Delete(ctx, "widgets."+group, metav1.DeleteOptions{})).To(Succeed())
	for {
		for event := range w.ResultChan() {
			if event.Type == watch.Deleted {
				w.Stop()
				return
			}
		}
		if w, err = widgets.Watch(ctx, metav1.ListOptions{}); apierrors.IsNotFound(err) {
			return // all are deleted, and the CRD too
		}
		Expect(err).NotTo(HaveOccurred())
	}
}

// seen is what the handler of an informer was told, and what it knows by that.
type seen struct {
	mu     sync.Mutex
	known  map[string]string // versions by name
	kinds  []string          // of the events
	errors []string          // what an informer never tells
}

func observe(informer interface {
	AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error)
}) *seen {
	GinkgoHelper()
	s := &seen{known: map[string]string{}}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.tell("added", nil, obj) },
		UpdateFunc: func(old, obj any) { s.tell("modified", old, obj) },
		DeleteFunc: func(obj any) { s.tell("deleted", nil, obj) },
	})
	Expect(err).NotTo(HaveOccurred())
	return s
}

func (s *seen) tell(kind string, old, obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	object, _ := meta.Accessor(obj)
	name := object.GetNamespace() + "/" + object.GetName()
	s.mu.Lock()
	defer s.mu.Unlock()
	before, now := number(s.known[name]), number(object.GetResourceVersion())
	if now < before || kind == "deleted" && now == before {
		s.errors = append(s.errors, fmt.Sprintf("%s %s at %d, after %d", kind, name, now, before))
	}
	if old, err := meta.Accessor(old); err == nil && old.GetUID() != object.GetUID() {
		s.errors = append(s.errors, fmt.Sprintf("%s is another object than before, and was not deleted", name))
	}
	s.kinds = append(s.kinds, kind+" "+name)
	s.known[name] = object.GetResourceVersion()
	if kind == "deleted" {
		delete(s.known, name)
	}
}

func number(version string) int64 {
	n, _ := strconv.ParseInt(version, 10, 64)
	return n
}

func (s *seen) now() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// events are those since the last call.
func (s *seen) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.kinds = nil }()
	return s.kinds
}

func (s *seen) wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.errors)
}

// observers follow all ConfigMaps: with client-go's informer and with one of ours.
func (s *shared) observers(ctx context.Context) map[string]*seen {
	GinkgoHelper()
	running, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	DeferCleanup(func() {
		cancel()
		tasks.Wait()
	})
	theirs := toolscache.NewSharedInformer(
		toolscache.NewListWatchFromClient(s.kube.CoreV1().RESTClient(), "configmaps", "", fields.Everything()), &corev1.ConfigMap{}, 0)
	c, err := cache.New(s.config, cache.Options{})
	Expect(err).NotTo(HaveOccurred())
	tasks.Go(func() { _ = c.Start(running) })
	ours, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	Expect(err).NotTo(HaveOccurred())
	observers := map[string]*seen{"client-go": observe(theirs), "Tarn": observe(ours)}
	tasks.Go(func() { theirs.RunWithContext(running) })
	return observers
}

// grant lets a user read ConfigMaps.
func (s *shared) grant(ctx context.Context, name string) {
	GinkgoHelper()
	_, err := s.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// uids returns those of all ConfigMaps by their names.
func (s *shared) uids(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	list, err := s.kube.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	found := map[string]types.UID{}
	for _, cm := range list.Items {
		found[cm.Namespace+"/"+cm.Name] = cm.UID
	}
	return found
}

// webhookAt leads to a webhook of serveWebhook.
func webhookAt(server *httptest.Server) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL + "/validate"), CABundle: authority(server)}
}

// refuse makes a policy that refuses ConfigMaps with the label refuse in a namespace.
func (s *shared) refuse(ctx context.Context, ns string) {
	GinkgoHelper()
	s.refuseBy(ctx, ns, nil, admissionregistrationv1.Validation{
		Expression: "!has(object.metadata.labels) || !('refuse' in object.metadata.labels)", Message: "the policy says no",
	})
}

// refuseByRule makes a policy that refuses ConfigMaps with the label which a ConfigMap with the label rule says.
func (s *shared) refuseByRule(ctx context.Context, ns string) {
	GinkgoHelper()
	s.refuseBy(ctx, ns, &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, admissionregistrationv1.Validation{
		Expression: "!has(object.metadata.labels) || !(params.data.label in object.metadata.labels)", Message: "the rule says no",
	})
}

// refuseBy makes a policy for new ConfigMaps of a namespace, perhaps with parameters.
func (s *shared) refuseBy(ctx context.Context, ns string, params *admissionregistrationv1.ParamKind, validation admissionregistrationv1.Validation) {
	GinkgoHelper()
	policies := s.kube.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind: params,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: inNamespace(ns),
				ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: createdConfigMaps}},
			},
			Validations: []admissionregistrationv1.Validation{validation},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "refuse", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	if params != nil {
		binding.Spec.ParamRef = &admissionregistrationv1.ParamRef{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"rule": ""}}, ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction),
		}
	}
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
