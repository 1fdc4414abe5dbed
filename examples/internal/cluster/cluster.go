// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster gives the examples an API server to work on: one in this
// process, or any that a kubeconfig file names.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
)

// Cluster is an API server that an example may use. Close must be called.
type Cluster struct {
	// Config connects to the server as an administrator.
	Config *rest.Config
	// Client talks to the server directly, without a cache.
	Client client.Client

	env     *envtest.Environment // nil if the server is not ours
	created []client.Object      // removed by Close, the last one first
}

// Open starts an API server in this process, or connects to the server of the file kubeconfig.
func Open(ctx context.Context, kubeconfig string) (*Cluster, error) {
	if kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read the kubeconfig: %w", err)
		}
		return connect(cfg, nil)
	}
	env := envtest.New(envtest.Options{})
	if err := env.Start(ctx); err != nil {
		return nil, err
	}
	c, err := connect(env.Config(), env)
	if err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return c, nil
}

func connect(cfg *rest.Config, env *envtest.Environment) (*Cluster, error) {
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", cfg.Host, err)
	}
	return &Cluster{Config: cfg, Client: c, env: env}, nil
}

// Embedded reports whether the server runs in this process.
func (c *Cluster) Embedded() bool { return c.env != nil }

// CreateNamespace makes a namespace and returns its name: the given one on a server in this
// process, elsewhere a free one that begins with it. Close removes it.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !c.Embedded() {
		ns.Name, ns.GenerateName = "", name+"-"
	}
	if err := c.Create(ctx, ns); err != nil {
		return "", err
	}
	// Where Pods need their ServiceAccount to exist, a controller makes it a moment
	// after the namespace; this is sooner.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
	if err := c.Client.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create ServiceAccount default in namespace %s: %w", ns.Name, err)
	}
	return ns.Name, nil
}

// Create creates an object that Close removes.
func (c *Cluster) Create(ctx context.Context, obj client.Object) error {
	if err := c.Client.Create(ctx, obj); err != nil {
		return fmt.Errorf("create %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	c.created = append(c.created, obj)
	return nil
}

// cleanupTimeout is for a cluster that no longer answers.
const cleanupTimeout = 30 * time.Second

// Close stops the server if it is in this process; elsewhere it removes what
// Create and CreateNamespace made. It does so after ctx has ended, too.
func (c *Cluster) Close(ctx context.Context) error {
	if c.Embedded() {
		return c.env.Stop() // its data goes with it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var errs []error
	for i := len(c.created) - 1; i >= 0; i-- {
		obj := c.created[i]
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, obj)); err != nil {
			errs = append(errs, fmt.Errorf("remove %T %s, please do it by hand: %w", obj, client.ObjectKeyFromObject(obj), err))
		}
	}
	return errors.Join(errs...)
}
