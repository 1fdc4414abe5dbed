// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdtyped "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

const (
	// askInterval is short, because the first answer is nearly always from the new definition.
	askInterval = time.Millisecond
)

// Installer has the server serve definitions.
type Installer struct {
	run     context.Context // of the server
	config  *rest.Config
	dynamic dynamic.Interface
	crds    cache.SharedIndexInformer // of the CRD server
	catalog *catalog.Catalog
	stores  *Stores
}

// NewInstaller is for a server that ends with run and asks itself with clients. crds is the informer of the CRD server.
func NewInstaller(run context.Context, clients *serving.Loopback, crds cache.SharedIndexInformer, offers *catalog.Catalog, made *Stores) *Installer {
	return &Installer{run: run, config: clients.Config, dynamic: clients.Dynamic, crds: crds, catalog: offers, stores: made}
}

// Install creates all of the definitions before it waits for the first.
func (n *Installer) Install(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) error {
	if len(crds) == 0 {
		return nil
	}
	ctx, end := serving.WhileRunning(ctx, n.run)
	defer end()
	clientset, err := crdclient.NewForConfig(n.config)
	if err != nil {
		return fmt.Errorf("create a client for CRDs: %w", err)
	}
	view, err := viewCRDs(n.crds)
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	defer view.close()
	var written []installation
	var served []schema.GroupVersionResource
	for _, crd := range crds {
		i, err := n.write(ctx, clientset.ApiextensionsV1().CustomResourceDefinitions(), crd)
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
		written, served = append(written, i), append(served, ServedBy(i.crd)...)
	}
	for _, i := range written {
		if err := view.waitEstablished(ctx, i.crd); err != nil {
			return fmt.Errorf("install CRD %s: %w", i.crd.Name, err)
		}
	}
	if err := n.catalog.WaitServed(ctx, served); err != nil {
		return err
	}
	for _, i := range written {
		if err := n.waitAnswered(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// installation is one definition on its way to being served.
type installation struct {
	crd     *apiextensionsv1.CustomResourceDefinition // as the server stored it
	changed bool                                      // there was one of another spec before
	stores  int                                       // of its resource that had been made before
}

// write makes the server's definition like crd.
func (n *Installer) write(
	ctx context.Context, client crdtyped.CustomResourceDefinitionInterface, crd *apiextensionsv1.CustomResourceDefinition,
) (installation, error) {
	crd = crd.DeepCopy()
	crd.ResourceVersion = ""
	resource := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	written := installation{stores: n.stores.Count(resource)}
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

// ServedBy are the resources of a definition that discovery will list.
func ServedBy(crd *apiextensionsv1.CustomResourceDefinition) []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for _, v := range crd.Spec.Versions {
		if v.Served {
			resources = append(resources, schema.GroupVersionResource{
				Group: crd.Spec.Group, Version: v.Name, Resource: crd.Spec.Names.Plural,
			})
		}
	}
	return resources
}

// AwaitChanged returns when every served version of a definition whose spec was changed is answered according to it. stores is how
// many stores of its resource had been made before.
func (n *Installer) AwaitChanged(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, stores int) error {
	return n.waitAnswered(ctx, installation{crd: crd, changed: true, stores: stores})
}

// waitAnswered returns when every served version of a definition is answered according to it. The handler of custom
// resources makes stores of a definition at the first request, and keeps them until it is told of a change, maybe later
// than discovery; it tells nobody when that was. So it is asked: it has the new definition when it does not disown a
// version, and has made a store since the definition was written. A new definition has no older stores, and is answered
// since it was established.
func (n *Installer) waitAnswered(ctx context.Context, i installation) error {
	if !i.changed {
		return nil
	}
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for _, resource := range ServedBy(i.crd) {
		for {
			answered, err := n.ask(ctx, resource, i.crd.Spec.Scope)
			if err != nil {
				return fmt.Errorf("ask for %s of the changed CRD %s: %w", resource.GroupVersion(), i.crd.Name, err)
			}
			if answered && n.stores.Count(resource.GroupResource()) > i.stores {
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
func (n *Installer) ask(ctx context.Context, resource schema.GroupVersionResource, scope apiextensionsv1.ResourceScope) (bool, error) {
	var client dynamic.ResourceInterface = n.dynamic.Resource(resource)
	if scope == apiextensionsv1.NamespaceScoped {
		client = n.dynamic.Resource(resource).Namespace(metav1.NamespaceDefault)
	}
	_, err := client.Get(ctx, stores.Nobody, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	return !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), nil // the page of an unknown path
}
