// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdtyped "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	// askInterval is short, because the first answer is nearly always from the new definition.
	askInterval = time.Millisecond

	// nobody is a name that can be asked for, and that no object can have.
	nobody = "-"
)

// installation is one definition on its way to being served.
type installation struct {
	crd     *apiextensionsv1.CustomResourceDefinition // as the server stored it
	changed bool                                      // there was one of another spec before
	stores  int                                       // of its resource that had been made before
}

// write makes the server's definition like crd.
func (s *server) write(
	ctx context.Context, client crdtyped.CustomResourceDefinitionInterface, crd *apiextensionsv1.CustomResourceDefinition,
) (installation, error) {
	crd = crd.DeepCopy()
	crd.ResourceVersion = ""
	resource := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	written := installation{stores: s.custom.count(resource)}
	var err error
	written.crd, err = client.Create(ctx, crd, metav1.CreateOptions{})
	for apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) { // the CRD server's controllers write the status
		var existing *apiextensionsv1.CustomResourceDefinition
		if existing, err = client.Get(ctx, crd.Name, metav1.GetOptions{}); err != nil {
			return installation{}, err
		}
		crd.ResourceVersion = existing.ResourceVersion
		if written.crd, err = client.Update(ctx, crd, metav1.UpdateOptions{}); err == nil {
			written.changed = !apiequality.Semantic.DeepEqual(existing.Spec, written.crd.Spec)
		}
	}
	return written, err
}

// served are the resources that discovery will list.
func (i installation) served() []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for _, v := range i.crd.Spec.Versions {
		if v.Served {
			resources = append(resources, schema.GroupVersionResource{
				Group: i.crd.Spec.Group, Version: v.Name, Resource: i.crd.Spec.Names.Plural,
			})
		}
	}
	return resources
}

// waitAnswered returns when every served version of a definition is answered according to it. The handler of custom
// resources makes stores of a definition at the first request, and keeps them until it is told of a change, maybe later
// than discovery; it tells nobody when that was. So it is asked: it has the new definition when it does not disown a
// version, and has made a store since the definition was written. A new definition has no older stores, and is answered
// since it was established.
func (s *server) waitAnswered(ctx context.Context, i installation) error {
	if !i.changed {
		return nil
	}
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for _, resource := range i.served() {
		for {
			answered, err := s.ask(ctx, resource, i.crd.Spec.Scope)
			if err != nil {
				return fmt.Errorf("ask for %s of the changed CRD %s: %w", resource.GroupVersion(), i.crd.Name, err)
			}
			if answered && s.custom.count(resource.GroupResource()) > i.stores {
				break
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("wait until the changed CRD %s is served: %w", i.crd.Name, context.Cause(ctx))
			}
		}
	}
	return nil
}

// ask reports whether the handler of custom resources answers for a resource. It asks for an object that cannot exist, so
// that no conversion webhook is called.
func (s *server) ask(ctx context.Context, resource schema.GroupVersionResource, scope apiextensionsv1.ResourceScope) (bool, error) {
	var client dynamic.ResourceInterface = s.loopback.dynamic.Resource(resource)
	if scope == apiextensionsv1.NamespaceScoped {
		client = s.loopback.dynamic.Resource(resource).Namespace(metav1.NamespaceDefault)
	}
	_, err := client.Get(ctx, nobody, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	return !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), nil // the page of an unknown path
}
