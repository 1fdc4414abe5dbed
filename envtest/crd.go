// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdtyped "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	sigsyaml "sigs.k8s.io/yaml"
)

// InstallCRDs creates the definitions, or updates those that exist, and returns when the server serves and discovers
// every version of them that is to be served. The definitions are not changed. A definition that the server accepts but
// cannot serve, because of a name that is taken, is ErrCRDNotEstablished.
func (e *Environment) InstallCRDs(ctx context.Context, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	if slices.Contains(crds, nil) {
		return errors.New("install CRDs: one of them is nil: leave it out")
	}
	r, err := e.parts()
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	return r.install(ctx, crds)
}

// install creates all of the definitions before it waits for the first.
func (r *running) install(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) error {
	if len(crds) == 0 {
		return nil
	}
	clientset, err := crdclient.NewForConfig(r.server.loopback.config)
	if err != nil {
		return fmt.Errorf("create a client for CRDs: %w", err)
	}
	client := clientset.ApiextensionsV1().CustomResourceDefinitions()
	var served []schema.GroupVersionResource
	for _, crd := range crds {
		if err := createOrUpdate(ctx, client, crd); err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
		served = append(served, servedResources(crd)...)
	}
	for _, crd := range crds {
		if err := waitEstablished(ctx, client, crd.Name); err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
	}
	return r.server.catalog.waitServed(ctx, served)
}

// createOrUpdate makes the server's definition like crd.
func createOrUpdate(ctx context.Context, client crdtyped.CustomResourceDefinitionInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	crd = crd.DeepCopy()
	crd.ResourceVersion = ""
	_, err := client.Create(ctx, crd, metav1.CreateOptions{})
	for apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) { // the CRD server's controllers write the status
		var existing *apiextensionsv1.CustomResourceDefinition
		if existing, err = client.Get(ctx, crd.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		crd.ResourceVersion = existing.ResourceVersion
		_, err = client.Update(ctx, crd, metav1.UpdateOptions{})
	}
	return err
}

// servedResources are the resources that discovery will list.
func servedResources(crd *apiextensionsv1.CustomResourceDefinition) []schema.GroupVersionResource {
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

// waitEstablished watches a definition until it is established or cannot be.
func waitEstablished(ctx context.Context, client crdtyped.CustomResourceDefinitionInterface, name string) error {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	w, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: selector}) // begins with the state of now
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return errors.New("the watch ended before the CRD was established")
			}
			if done, err := established(event); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("wait until it is established: %w", context.Cause(ctx))
		}
	}
}

// established reads the conditions of a definition.
func established(event watch.Event) (bool, error) {
	if event.Type == watch.Error {
		return false, apierrors.FromObject(event.Object)
	}
	crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || event.Type == watch.Bookmark {
		return false, nil
	}
	if event.Type == watch.Deleted {
		return false, fmt.Errorf("%w: it was deleted", ErrCRDNotEstablished)
	}
	names := apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted)
	if names != nil && names.Status == apiextensionsv1.ConditionFalse {
		return false, fmt.Errorf("%w: %s", ErrCRDNotEstablished, names.Message)
	}
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), nil
}

// waitServed returns when discovery lists the resources.
func (c *catalog) waitServed(ctx context.Context, resources []schema.GroupVersionResource) error {
	for {
		served, changed := c.serves(resources...)
		if served {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until the CRDs are in discovery: %w", context.Cause(ctx))
		}
	}
}

// readCRDs reads the definitions in files and folders, in the order of the names.
func readCRDs(paths []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, path := range paths {
		files, err := manifests(path)
		if err != nil {
			return nil, fmt.Errorf("read CRDs: %w", err)
		}
		for _, file := range files {
			found, err := readManifest(file)
			if err != nil {
				return nil, fmt.Errorf("read CRDs from %s: %w", file, err)
			}
			crds = append(crds, found...)
		}
	}
	return crds, nil
}

// manifests returns path if it is a file, or the manifests in the folder.
func manifests(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); !entry.IsDir() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	return files, nil
}

// readManifest reads the definitions among a file's documents, and refuses fields that they do not have.
func readManifest(file string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return crds, nil
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := sigsyaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		if kind.GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := sigsyaml.UnmarshalStrict(document, crd); err != nil {
			return nil, err
		}
		crds = append(crds, crd)
	}
}
