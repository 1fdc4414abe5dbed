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
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// manifestExtensions are how files with CRDs end in a folder, as for controller-runtime's envtest.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

// InstallCRDs creates the definitions, or updates those that exist. It returns when the server serves and discovers
// every version of them that is to be served, in its current form. It does not change its arguments. The error is
// ErrCRDNotEstablished if the server accepts a definition but cannot serve it, because one of its names is taken.
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
	ctx, end := r.server.whileRunning(ctx)
	defer end()
	clientset, err := crdclient.NewForConfig(r.server.loopback.config)
	if err != nil {
		return fmt.Errorf("create a client for CRDs: %w", err)
	}
	view, err := viewCRDs(r.server.crds.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer())
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	defer view.close()
	var written []installation
	var served []schema.GroupVersionResource
	for _, crd := range crds {
		i, err := r.server.write(ctx, clientset.ApiextensionsV1().CustomResourceDefinitions(), crd)
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
		written, served = append(written, i), append(served, i.served()...)
	}
	for _, i := range written {
		if err := view.waitEstablished(ctx, i.crd); err != nil {
			return fmt.Errorf("install CRD %s: %w", i.crd.Name, err)
		}
	}
	if err := r.server.catalog.waitServed(ctx, served); err != nil {
		return err
	}
	for _, i := range written {
		if err := r.server.waitAnswered(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// waitServed returns when discovery lists the resources.
func (c *catalog) waitServed(ctx context.Context, resources []schema.GroupVersionResource) error {
	if err := until(ctx, func() (bool, <-chan struct{}) { return c.serves(resources...) }); err != nil {
		return fmt.Errorf("wait until the CRDs are in discovery: %w", err)
	}
	return nil
}

// waitGone returns when discovery lists none of the resources.
func (c *catalog) waitGone(ctx context.Context, resources []schema.GroupVersionResource) error {
	if err := until(ctx, func() (bool, <-chan struct{}) { return c.lacks(resources...) }); err != nil {
		return fmt.Errorf("wait until deleted CRDs are not in discovery: %w", err)
	}
	return nil
}

// until asks again at each change until the answer is yes.
func until(ctx context.Context, ask func() (bool, <-chan struct{})) error {
	for {
		yes, changed := ask()
		if yes {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readCRDs reads the definitions in Options.CRDDirectoryPaths, in the order of the names. A path without any is a mistake
// that would show much later, as a kind that the server does not know.
func readCRDs(paths []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for i, path := range paths {
		found, err := readCRDPath(path)
		if err != nil {
			return nil, fmt.Errorf("envtest.Options.CRDDirectoryPaths[%d]: %w", i, err)
		}
		crds = append(crds, found...)
	}
	return crds, nil
}

// readCRDPath reads the definitions of one file or folder.
func readCRDPath(path string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, folders, err := manifests(path)
	if err != nil {
		return nil, fmt.Errorf("read CRDs: %w", err)
	}
	crds, err := readManifests(files)
	if err == nil && len(crds) == 0 {
		err = fmt.Errorf("no CustomResourceDefinition of %s: %s",
			apiextensionsv1.SchemeGroupVersion, whereCRDsAre(path, files, folders))
	}
	return crds, err
}

// readManifests reads the definitions in files.
func readManifests(files []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		found, err := readManifest(file)
		if err != nil {
			return nil, fmt.Errorf("read CRDs from %s: %w", file, err)
		}
		crds = append(crds, found...)
	}
	return crds, nil
}

// manifests returns path if it is a file, or the manifests in the folder and the folders below it.
func manifests(path string) (files, folders []string, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, nil, err
	}
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		switch name := filepath.Join(path, entry.Name()); {
		case entry.IsDir():
			folders = append(folders, name)
		case slices.Contains(manifestExtensions, filepath.Ext(name)):
			files = append(files, name)
		}
	}
	return files, folders, err
}

// whereCRDsAre says what a path without definitions has, and which of the folders below it was meant, perhaps.
func whereCRDsAre(path string, files, folders []string) string {
	if slices.Equal(files, []string{path}) {
		return "the file " + path + " has none"
	}
	looked := "the folder " + path + " has no file that ends in " + strings.Join(manifestExtensions, ", ")
	if len(files) > 0 {
		looked = "in the folder " + path + " the files " + baseNames(files) + " have none"
	}
	if len(folders) == 0 {
		return looked
	}
	looked += ", and folders below are not entered: "
	for _, folder := range folders {
		files, _, _ := manifests(folder) // one that cannot be read is not the one to name
		if crds, err := readManifests(files); err == nil && len(crds) > 0 {
			return looked + "name " + folder
		}
	}
	return looked + "there are " + baseNames(folders)
}

// baseNames joins the last elements of paths.
func baseNames(paths []string) string {
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return strings.Join(names, ", ")
}

// readManifest reads the definitions among a file's documents, as controller-runtime's envtest does: fields that nobody knows
// are notes for other tools, and a document without group or kind is a patch of a definition.
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
		if err := sigsyaml.Unmarshal(document, crd); err != nil {
			return nil, err
		}
		if crd.Spec.Group != "" && crd.Spec.Names.Kind != "" {
			crds = append(crds, crd)
		}
	}
}
