// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package components

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest"
)

// assetsVariable names the folder of the programs, as for controller-runtime's envtest.
const assetsVariable = "KUBEBUILDER_ASSETS"

// defaultGrace is how long a program may take to end after SIGTERM. It is long, because machines that run tests are busy.
const defaultGrace = 30 * time.Second

// Options says how a program runs. The zero value runs the program of KUBEBUILDER_ASSETS with what it does by default.
type Options struct {
	// Path is the file of the program. The default is the program of its usual name in the folder that the environment
	// variable KUBEBUILDER_ASSETS names.
	Path string

	// Controllers are the controllers that kube-controller-manager runs, by the names of its flag --controllers: "*" is all that
	// are on by default, and "-name" takes one away. None is the default, "*". kube-scheduler has no such flag, and refuses them.
	// The slice is copied.
	Controllers []string

	// Args are more flags for the program. They stand after the flags of this package, so that they win. The slice is copied.
	Args []string

	// Log receives what the program writes, from one goroutine at a time. A Write that does not return keeps Stop waiting.
	// The default is to discard it, but for the end, which errors quote.
	Log io.Writer
}

// program is what is asked for one of the real programs.
type program struct {
	name  string // of its file
	flag  string // of envtest/cmd/assets, which builds it
	opts  Options
	grace time.Duration
	flags func(folder string, config *rest.Config) ([]string, error) // its own ones; they may put files into folder
}

// ControllerManager returns a kube-controller-manager for envtest.Options.Controllers, of its own process. Start fails if
// there is no such program, or if a name of a controller is not well formed. Start does not wait for the program's controllers:
// a test waits for what they do. A program that ends by itself is not started again, and is the error of Stop, with the last
// lines that it wrote. Stop sends it SIGTERM and, if that does not end it in 30 s, SIGKILL. On Linux it also ends with the
// test process.
func ControllerManager(o Options) envtest.Controller {
	controllers := slices.Clone(o.Controllers)
	if len(controllers) == 0 {
		controllers = []string{"*"}
	}
	p := &program{name: "kube-controller-manager", flag: "-controller-manager", opts: o, grace: defaultGrace}
	p.flags = func(folder string, config *rest.Config) ([]string, error) {
		key, err := serviceAccountKey()
		if err != nil {
			return nil, err
		}
		keyFile, caFile := filepath.Join(folder, "service-account.pem"), filepath.Join(folder, "ca.pem")
		if err := errors.Join(os.WriteFile(keyFile, key, 0o600), os.WriteFile(caFile, config.CAData, 0o600)); err != nil {
			return nil, err
		}
		return []string{
			"--controllers=" + strings.Join(controllers, ","),
			"--use-service-account-credentials=false",
			"--service-account-private-key-file=" + keyFile,
			"--root-ca-file=" + caFile,
		}, nil
	}
	return p.controller(controllerNames(controllers))
}

// Scheduler returns a kube-scheduler for envtest.Options.Controllers, of its own process. It starts and ends as that of
// ControllerManager does.
func Scheduler(o Options) envtest.Controller {
	p := &program{name: "kube-scheduler", flag: "-scheduler", opts: o, grace: defaultGrace}
	p.flags = func(string, *rest.Config) ([]string, error) { return nil, nil }
	var err error
	if len(o.Controllers) > 0 {
		err = errors.New("components.Options.Controllers is for kube-controller-manager: kube-scheduler has none")
	}
	return p.controller(err)
}

// wellFormed is what a word of --controllers looks like.
var wellFormed = regexp.MustCompile(`^(\*|-?[a-z0-9]+(-[a-z0-9]+)*)$`)

// controllerNames says which names cannot be of controllers. Which of the others there are, only the program knows.
func controllerNames(names []string) error {
	for i, name := range names {
		if !wellFormed.MatchString(name) {
			return fmt.Errorf("components.Options.Controllers[%d]: %q is not the name of a controller: "+
				`write one such as "job-controller", "-job-controller" or "*"`, i, name)
		}
	}
	return nil
}

// controller is the program as an environment takes it. err is what is wrong with the options of its own.
func (p *program) controller(err error) envtest.Controller {
	p.opts.Args = slices.Clone(p.opts.Args)
	path, pathErr := p.find()
	return envtest.Controller{
		Name: p.name,
		Err:  errors.Join(err, pathErr),
		Run:  func(ctx context.Context, config *rest.Config) error { return p.run(ctx, path, config) },
	}
}

// find returns the file of the program.
func (p *program) find() (string, error) {
	path := p.opts.Path
	if path == "" {
		assets := os.Getenv(assetsVariable)
		if assets == "" {
			return "", fmt.Errorf("there is no %s: neither Options.Path nor %s is set; %s", p.name, assetsVariable, p.howToBuild())
		}
		path = filepath.Join(assets, p.name)
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("there is no %s: %w; %s", p.name, err, p.howToBuild())
	}
	return found, nil
}

func (p *program) howToBuild() string {
	return fmt.Sprintf(`build it with: eval "$(go run ./envtest/cmd/assets %s)"`, p.flag)
}

// serviceAccountKey makes a key for tokens of ServiceAccounts, as PEM.
func serviceAccountKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for ServiceAccounts: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a key for ServiceAccounts: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
