// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// scene is what there is to look at.
type scene struct {
	namespace string
	viewer    *corev1.ServiceAccount // may look at the page, and nothing else
	operator  *rest.Config           // of the manager, which may not list nodes
}

// parts is how many ConfigMaps there are.
const parts = 24

// setUp creates the accounts and the objects.
func setUp(ctx context.Context, c *cluster.Cluster) (*scene, error) {
	namespace, err := c.CreateNamespace(ctx, "inspect")
	if err != nil {
		return nil, err
	}
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	s := &scene{namespace: namespace, viewer: account("viewer"), operator: rest.CopyConfig(c.Config)}
	s.operator.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":operator",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	objects := []crclient.Object{s.viewer, account("operator")}
	objects = append(objects, s.grant("viewer", rbacv1.PolicyRule{NonResourceURLs: []string{"/inspect/*"}, Verbs: []string{"get"}})...)
	objects = append(objects, s.grant("operator",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services"}, Verbs: []string{"get", "list", "watch", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	)...)
	for n := range parts {
		objects = append(objects, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("part-%02d", n), Labels: map[string]string{"side": []string{"port", "starboard"}[n%2]}},
			Data:       map[string]string{"state": "new"},
		})
	}
	objects = append(objects,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chest"}, StringData: map[string]string{"gold": "three hundred doubloons"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "harbour"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
	)
	for _, obj := range objects {
		if err := c.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// grant returns a role with rules, and what binds it to an account.
func (s *scene) grant(account string, rules ...rbacv1.PolicyRule) []crclient.Object {
	about := metav1.ObjectMeta{Name: s.namespace + "-" + account}
	return []crclient.Object{
		&rbacv1.ClusterRole{ObjectMeta: about, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: about, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: about.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: account}},
		},
	}
}

// lake is a kind that no CRD defines.
func lake() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("inspect.example.com/v1")
	u.SetKind("Lake")
	return u
}

// populate has the manager watch kinds that come to different ends.
func (s *scene) populate(ctx context.Context, mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true)}). // a test may run this twice
		Complete(&painter{mgr.GetClient()})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	for _, obj := range []crclient.Object{&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &corev1.Node{}, lake()} {
		informer, err := mgr.GetCache().GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, slow := obj.(*corev1.ConfigMap); slow {
			if _, err := informer.AddEventHandler(&slowHandler{ended: ctx.Done()}); err != nil {
				return err
			}
		}
	}
	return mgr.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "state", func(obj crclient.Object) []string {
		return []string{obj.(*corev1.ConfigMap).Data["state"]}
	})
}

// painter is a reconciler that says in each ConfigMap that it has seen it.
type painter struct{ crclient.Client }

// Reconcile implements reconcile.Reconciler.
func (p *painter) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	part := &corev1.ConfigMap{}
	if err := p.Get(ctx, req.NamespacedName, part); err != nil || !strings.HasPrefix(part.Name, "part-") {
		return ctrl.Result{}, crclient.IgnoreNotFound(err)
	}
	alike := &corev1.ConfigMapList{}
	if err := p.List(ctx, alike, crclient.InNamespace(part.Namespace), crclient.MatchingFields{"state": part.Data["state"]}); err != nil {
		return ctrl.Result{}, err
	}
	if part.Data["state"] == "painted" {
		return ctrl.Result{}, nil
	}
	before := part.DeepCopy()
	part.Data["state"] = "painted"
	return ctrl.Result{}, crclient.IgnoreNotFound(p.Patch(ctx, part, crclient.MergeFrom(before)))
}

// slowHandler takes two seconds for each event.
type slowHandler struct{ ended <-chan struct{} }

var _ toolscache.ResourceEventHandler = (*slowHandler)(nil)

func (h *slowHandler) wait() {
	select {
	case <-time.After(2 * time.Second):
	case <-h.ended:
	}
}

// OnAdd implements ResourceEventHandler.
func (h *slowHandler) OnAdd(any, bool) { h.wait() }

// OnUpdate implements ResourceEventHandler.
func (h *slowHandler) OnUpdate(any, any) { h.wait() }

// OnDelete implements ResourceEventHandler.
func (h *slowHandler) OnDelete(any) { h.wait() }

// write changes the ConfigMaps in turn until ctx ends.
func (s *scene) write(ctx context.Context, c *cluster.Cluster) error {
	for n := 0; ; n++ {
		part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprintf("part-%02d", n%parts)}}
		patch := crclient.RawPatch(crclient.Merge.Type(), []byte(`{"data":{"state":"worn","round":"`+strconv.Itoa(n/parts)+`"}}`))
		if err := c.Client.Patch(ctx, part, patch); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// viewerToken asks for a token of the viewer, as kubectl create token does.
func (s *scene) viewerToken(ctx context.Context, c *cluster.Cluster) (string, error) {
	request := &authenticationv1.TokenRequest{}
	if err := c.Client.SubResource("token").Create(ctx, s.viewer, request); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return request.Status.Token, nil
}

// network is what lies between the cache and the API server: watches of Services bring nothing but
// their first bytes, with the list.
type network struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/services") {
		answer.Body = &deadBody{ReadCloser: answer.Body, until: time.Now().Add(time.Second), ended: r.Context().Done()}
	}
	return answer, err
}

// deadBody brings nothing after a moment.
type deadBody struct {
	io.ReadCloser
	until time.Time
	ended <-chan struct{}
}

// Read implements io.Reader.
func (b *deadBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if time.Now().After(b.until) {
		<-b.ended
		return 0, io.EOF
	}
	return n, err
}
