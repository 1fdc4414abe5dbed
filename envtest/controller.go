// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/envtest/internal/access"
)

// controllerUser is the name by which kube-controller-manager is known to a server.
const controllerUser = "system:kube-controller-manager"

// Controller is a control loop that an environment runs beside its server. Package envtest/controllers has those of
// kube-controller-manager; a test may have others.
type Controller struct {
	// Name is for errors and logs, and is the user agent of the controller's requests.
	Name string

	// Run runs the controller until ctx ends, and then returns: Stop waits for it. The configuration is that of a user who may
	// do everything, system:kube-controller-manager, and belongs to Run. ctx carries the logger, for klog.FromContext. If Run
	// returns earlier, the environment goes on without the controller, logs it, and Stop returns it as an error.
	Run func(ctx context.Context, config *rest.Config) error

	// Err is what Start fails with, before anything runs. It is for functions that return a Controller to write into
	// Options.Controllers, and that have no other way to refuse.
	Err error
}

// validate says what is wrong with a controller.
func (c Controller) validate() error {
	switch {
	case c.Err != nil:
		return c.Err
	case c.Name == "":
		return errors.New("it has no Name")
	case c.Run == nil:
		return fmt.Errorf("%s has no Run", c.Name)
	}
	return nil
}

// controllers run beside a server, each in a goroutine that stop ends.
type controllers struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	errs []error // guarded by mu; of ended controllers
}

// startControllers starts controllers, each with credentials of its own.
func startControllers(list []Controller, users *access.Users) (*controllers, error) {
	if len(list) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	started := &controllers{cancel: cancel}
	for _, c := range list {
		config, err := users.Issue(controllerUser, user.SystemPrivilegedGroup)
		if err != nil {
			return started, fmt.Errorf("start %s: %w", c.Name, err)
		}
		config.UserAgent = c.Name
		started.running.Go(func() { started.note(ctx, c, c.Run(named(ctx, c.Name), config)) })
	}
	return started, nil
}

// named returns a context with a logger for what has a name.
func named(ctx context.Context, name string) context.Context {
	return klog.NewContext(ctx, klog.Background().WithName(name))
}

// note keeps what a controller ended with, unless it was told to end and has nothing to say.
func (c *controllers) note(ctx context.Context, of Controller, err error) {
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return
	case ctx.Err() != nil:
		err = fmt.Errorf("%s: %w", of.Name, err)
	case err == nil:
		err = fmt.Errorf("%s ended by itself, without an error", of.Name)
	default:
		err = fmt.Errorf("%s ended by itself: %w", of.Name, err)
	}
	klog.Background().WithName(of.Name).Error(err, "A controller of the environment has ended")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// stop ends the controllers, waits for them, and returns what they ended with.
func (c *controllers) stop() error {
	if c == nil {
		return nil
	}
	c.cancel()
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}
