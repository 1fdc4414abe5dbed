// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	// etcdModule is also the import path of the etcd command.
	etcdModule = "go.etcd.io/etcd/server/v3"
	// stagingPrefix is how Kubernetes' go.mod points at the modules that it publishes from its own tree.
	stagingPrefix = "./staging/"
)

// release is one release of Kubernetes.
type release struct {
	kubernetes string // canonical version, such as v1.36.3
	staging    string // the version under which its staging modules are published, such as v0.36.3
}

// parseRelease accepts a full version of Kubernetes, such as v1.36.3.
func parseRelease(version string) (release, error) {
	rest, ok := strings.CutPrefix(version, "v1.")
	if !ok || semver.Canonical(version) != version {
		return release{}, fmt.Errorf("%q is not a release of Kubernetes: give a full version such as %s", version, defaultKubernetes)
	}
	return release{kubernetes: version, staging: "v0." + rest}, nil
}

// folderName names the folder of a program of this release, or of its binaries (kubernetes), for one platform.
func (r release) folderName(program, goos, goarch string) string {
	return fmt.Sprintf("%s-%s-%s-%s", program, r.kubernetes, goos, goarch)
}

// ldflags strips a program and gives it the version that it reports.
func (r release) ldflags() string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(r.kubernetes), "v"), ".")
	flags := "-s -w"
	for _, v := range [][2]string{{"gitVersion", r.kubernetes}, {"gitMajor", major}, {"gitMinor", minor}} {
		flags += " -X k8s.io/component-base/version." + v[0] + "=" + v[1]
	}
	return flags
}

// recipe is the temporary module from which the programs are built.
type recipe struct {
	gomod []byte // its go.mod
	etcd  string // the version of etcd that it builds
}

// recipe derives the temporary module from Kubernetes' own go.mod. Kubernetes requires its staging modules at
// v0.0.0 and replaces them by folders of its tree; outside of the tree they are replaced by their published
// versions. The version of etcd is the one that Kubernetes itself is tested with.
func (r release) recipe(kubernetesGoMod []byte) (recipe, error) {
	theirs, err := modfile.Parse("go.mod", kubernetesGoMod, nil)
	if err != nil {
		return recipe{}, fmt.Errorf("read the go.mod of %s %s: %w", kubernetesModule, r.kubernetes, err)
	}
	etcd, err := requiredVersion(theirs, etcdModule)
	if err != nil {
		return recipe{}, err
	}
	ours := new(modfile.File)
	if err := ours.AddModuleStmt("assets"); err != nil {
		return recipe{}, err
	}
	if theirs.Go != nil {
		if err := ours.AddGoStmt(theirs.Go.Version); err != nil {
			return recipe{}, err
		}
	}
	ours.AddNewRequire(kubernetesModule, r.kubernetes, false)
	ours.AddNewRequire(etcdModule, etcd, false)
	for _, replace := range theirs.Replace {
		if !strings.HasPrefix(replace.New.Path, stagingPrefix) {
			continue
		}
		if err := ours.AddReplace(replace.Old.Path, "", replace.Old.Path, r.staging); err != nil {
			return recipe{}, err
		}
	}
	gomod, err := ours.Format()
	return recipe{gomod: gomod, etcd: etcd}, err
}

// requiredVersion is the version at which f requires the module at path.
func requiredVersion(f *modfile.File, path string) (string, error) {
	for _, require := range f.Require {
		if require.Mod.Path == path {
			return require.Mod.Version, nil
		}
	}
	of := module.Version{Path: "this module"}
	if f.Module != nil {
		of = f.Module.Mod
	}
	return "", fmt.Errorf("the go.mod of %s requires no %s: choose another release with -kubernetes", of.Path, path)
}
