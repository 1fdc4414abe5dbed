// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	networkHint = "check the network and the module proxy (go env GOPROXY); proxies that need a variable such as HTTPS_PROXY get it from the environment"
	buildHint   = "the go command's words are above; a newer Go may be needed"
)

// build builds programs of r below work, in a temporary module, and returns the folder that holds them alone.
func build(ctx context.Context, p *progress, r release, programs []string, work string) (string, error) {
	module, bin := filepath.Join(work, "module"), filepath.Join(work, "bin")
	for _, dir := range []string{module, bin} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", err
		}
	}
	g, err := findGo(module, r.environment())
	if err != nil {
		return "", err
	}
	rec, err := prepare(ctx, p, g, r, programs)
	if err != nil {
		return "", err
	}
	for _, name := range programs {
		if err := targetOf(name, r, rec).build(ctx, p, g, filepath.Join(bin, name), r.ldflags()); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// prepare writes the temporary module into g's folder and downloads every module that the build of the programs needs.
func prepare(ctx context.Context, p *progress, g goCommand, r release, programs []string) (recipe, error) {
	var rec recipe
	err := p.stage("downloading Kubernetes "+r.kubernetes, "", func(a *activity) error {
		source, err := download(ctx, g, a, r)
		if err != nil {
			return err
		}
		rec, err = writeModule(g.dir, r, source)
		return err
	})
	if err != nil {
		return recipe{}, err
	}
	err = p.stage("downloading what it needs", "modules", func(a *activity) error {
		args := []string{"list", "-mod=mod", "-deps"}
		for _, name := range programs {
			args = append(args, packageOf(name))
		}
		return g.run(ctx, io.Discard, a, r.networkHint(), args...)
	})
	return rec, err
}

// source is where the go command put a module: what it says of it with -json.
type source struct {
	GoMod string // path of its go.mod
	Dir   string // path of its tree
	Sum   string // its checksum, as in go.sum
	Error string
}

// download brings the module k8s.io/kubernetes into the module cache.
func download(ctx context.Context, g goCommand, a *activity, r release) (source, error) {
	out, err := g.output(ctx, a, r.networkHint(), "mod", "download", "-json", kubernetesModule+"@"+r.kubernetes)
	var s source
	if jsonErr := json.Unmarshal(out, &s); err == nil {
		err = jsonErr
	}
	var failure *goError
	if errors.As(err, &failure) && s.Error != "" {
		failure.words = s.Error // with -json, the cause stands there
	}
	if err == nil {
		err = r.verify(s)
	}
	return s, err
}

// writeModule writes the temporary module's go.mod and its go.sum. It has the checksums with which Kubernetes was
// released. The checksums of Kubernetes itself and of its staging modules are pinned here. For a release that is not, the
// go command adds these after it has asked the checksum database.
func writeModule(dir string, r release, s source) (recipe, error) {
	theirs, err := os.ReadFile(s.GoMod)
	if err != nil {
		return recipe{}, err
	}
	rec, err := r.recipe(theirs)
	if err != nil {
		return recipe{}, err
	}
	sums, err := os.ReadFile(filepath.Join(s.Dir, "go.sum"))
	if err != nil {
		return recipe{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), rec.gomod, 0o600); err != nil {
		return recipe{}, err
	}
	return rec, os.WriteFile(filepath.Join(dir, "go.sum"), append(sums, r.pins()...), 0o600)
}

// target is one program.
type target struct {
	pkg     string   // import path of the command
	version string   // what the program must report
	ask     []string // the arguments with which it does
}

// targetOf returns the program of that name in release r; rec has the version of etcd.
func targetOf(name string, r release, rec recipe) target {
	t := target{pkg: packageOf(name), version: r.kubernetes, ask: []string{"--version"}}
	switch name {
	case "etcd":
		t.version = strings.TrimPrefix(rec.etcd, "v")
	case "kubectl":
		t.ask = []string{"version", "--client"}
	}
	return t
}

// packageOf returns the import path of the program of that name.
func packageOf(name string) string {
	if name == "etcd" {
		return etcdModule
	}
	return kubernetesModule + "/cmd/" + name
}

// build builds the program at path and makes sure that it runs and is of the right version.
func (t target) build(ctx context.Context, p *progress, g goCommand, path, ldflags string) error {
	name := filepath.Base(path)
	err := p.stage("compiling "+name+" "+t.version, "packages", func(a *activity) error {
		return g.run(ctx, io.Discard, a, buildHint,
			"build", "-v", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", path, t.pkg)
	})
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, t.ask...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run the new %s: %w\n%s", name, err, out)
	}
	if !strings.Contains(string(out), t.version) {
		return fmt.Errorf("the new %s is not of version %s: it says %q", name, t.version, out)
	}
	return nil
}
