// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// VirtualStorages are the resources of the core group that are not kept: bindings, the old way to pods/binding, and
// componentstatuses.
func VirtualStorages(pods *kind.Store) map[string]rest.Storage {
	return map[string]rest.Storage{
		"bindings":          legacyBindingREST{bindingREST{pods}},
		"componentstatuses": newComponents(),
	}
}

// legacyBindingREST serves bindings: the name of the Pod is the name of the binding.
type legacyBindingREST struct{ pods bindingREST }

var (
	_ rest.Creater              = legacyBindingREST{}
	_ rest.Scoper               = legacyBindingREST{}
	_ rest.SingularNameProvider = legacyBindingREST{}
)

func (r legacyBindingREST) New() runtime.Object { return r.pods.New() }

// Destroy does nothing: Pods own the storage.
func (r legacyBindingREST) Destroy() {}

func (r legacyBindingREST) NamespaceScoped() bool { return true }

func (r legacyBindingREST) GetSingularName() string { return "binding" }

// Create does what pods/binding does.
func (r legacyBindingREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	binding, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %T", obj))
	}
	return r.pods.Create(ctx, binding.Name, obj, validate, options)
}

// probeTimeout is how long a component may take to say how it is.
const probeTimeout = 20 * time.Second

// components serves componentstatuses: it asks the parts of a control plane how they are where a kube-apiserver looks for
// them, on the same machine.
type components struct {
	rest.TableConvertor
	client *http.Client
	probed []component
}

// component is one of them. Without a URL it is part of this process.
type component struct{ name, url string }

var (
	_ rest.Lister               = (*components)(nil)
	_ rest.Getter               = (*components)(nil)
	_ rest.Scoper               = (*components)(nil)
	_ rest.ShortNamesProvider   = (*components)(nil)
	_ rest.SingularNameProvider = (*components)(nil)
)

func newComponents() *components {
	return &components{
		TableConvertor: kind.Show("Status,Message,Error", componentCells),
		client: &http.Client{
			Timeout: probeTimeout,
			// As by kube-apiserver, who is asked needs no known certificate: nothing secret is sent.
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		},
		probed: []component{
			{"controller-manager", "https://127.0.0.1:10257/healthz"},
			{"scheduler", "https://127.0.0.1:10259/healthz"},
			{name: "etcd-0"},
		},
	}
}

func (c *components) New() runtime.Object { return &corev1.ComponentStatus{} }

func (c *components) NewList() runtime.Object { return &corev1.ComponentStatusList{} }

// Destroy does nothing: nothing is kept.
func (c *components) Destroy() {}

func (c *components) NamespaceScoped() bool { return false }

func (c *components) GetSingularName() string { return "componentstatus" }

func (c *components) ShortNames() []string { return []string{"cs"} }

// List asks every component that the selectors name.
func (c *components) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	list := &corev1.ComponentStatusList{}
	for _, part := range c.probed {
		status := c.probe(ctx, part)
		if named(status, options) {
			list.Items = append(list.Items, *status)
		}
	}
	return list, nil
}

// Get asks one component.
func (c *components) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	for _, part := range c.probed {
		if part.name == name {
			return c.probe(ctx, part), nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("componentstatus"), name)
}

// probe asks one component.
func (c *components) probe(ctx context.Context, part component) *corev1.ComponentStatus {
	condition := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if part.url != "" {
		message, err := c.ask(ctx, part.url)
		condition.Message = message
		if err != nil {
			condition.Status, condition.Message = corev1.ConditionFalse, err.Error()
		}
	}
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: part.name}, Conditions: []corev1.ComponentCondition{condition}}
}

// ask returns what a component says about itself.
func (c *components) ask(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 10 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("HTTP probe failed with statuscode: %d", resp.StatusCode)
	}
	return string(body), err
}

// named reports whether the selectors of a list match.
func named(status *corev1.ComponentStatus, options *metainternalversion.ListOptions) bool {
	if options == nil {
		return true
	}
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(status.Labels)) {
		return false
	}
	return options.FieldSelector == nil || options.FieldSelector.Matches(fields.Set{"metadata.name": status.Name})
}

func componentCells(status *corev1.ComponentStatus) []any {
	for _, condition := range status.Conditions {
		if condition.Type != corev1.ComponentHealthy {
			continue
		}
		health := "Unhealthy"
		if condition.Status == corev1.ConditionTrue {
			health = "Healthy"
		}
		return []any{health, condition.Message, condition.Error}
	}
	return []any{"Unknown", "", ""}
}
