// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// manifestExtensions are how files with CRDs end in a folder, as for controller-runtime's envtest.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

// Read reads the definitions of one file or folder, in the order of the names. None is an error.
func Read(path string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
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

// manifests returns a folder's manifests, and its subfolders, unread. A file is its own manifest.
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
		files, _, _ := manifests(folder) // another error is not the one to report
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
