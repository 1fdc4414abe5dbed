// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

const (
	// crdSyncedHook is done when the CRD server knows the definitions.
	crdSyncedHook = "crd-informer-synced"

	// hookPrefix begins the names of their checks.
	hookPrefix = "poststarthook/"

	// hookPatience is far above what hooks take when they are cancelled, and bounds Stop if one of them hangs.
	hookPatience = 10 * time.Second
)

// bootstrapHooks are kube-apiserver's names of hooks whose work bootstrap does when the others are done. Scripts ask for them
// below /readyz.
var bootstrapHooks = []string{"rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes", "start-system-namespaces-controller"}

// hooks is what a server knows of its hooks.
type hooks struct {
	ran          bool
	patience     time.Duration // with them, when the server stops
	bootstrapped atomic.Bool   // what bootstrap makes is in force
}

// check makes the server ready when bootstrap has ended.
func (h *hooks) check(generic *genericapiserver.GenericAPIServer) error {
	for _, name := range bootstrapHooks {
		err := generic.AddReadyzChecks(healthz.NamedCheck(hookPrefix+name, func(*http.Request) error {
			if !h.bootstrapped.Load() {
				return errors.New("not finished")
			}
			return nil
		}))
		if err != nil {
			return fmt.Errorf("add the check of %s: %w", name, err)
		}
	}
	return nil
}

// newCRDServer makes the CRD server with one of its hooks replaced. That hook waits for an informer and fails when it is
// cancelled, and a failing hook ends the process.
func newCRDServer(config *crdserver.Config) (*crdserver.CustomResourceDefinitions, error) {
	disabled := config.GenericConfig.DisabledPostStartHooks // the server asks it whenever a hook is added
	disabled.Insert(crdSyncedHook)
	crds, err := config.Complete().New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("create the server for custom resources: %w", err)
	}
	disabled.Delete(crdSyncedHook)
	err = crds.GenericAPIServer.AddPostStartHook(crdSyncedHook, func(ctx genericapiserver.PostStartHookContext) error {
		crds.Informers.WaitForCacheSync(ctx.Done())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("add hook %s: %w", crdSyncedHook, err)
	}
	return crds, nil
}

// waitForHooks returns when every hook is done. The generic server tells of that through its health checks alone.
func waitForHooks(ctx context.Context, crds *crdserver.CustomResourceDefinitions) error {
	ticker := time.NewTicker(serving.PollInterval)
	defer ticker.Stop()
	for {
		pending := pendingHooks(crds)
		if len(pending) == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", strings.Join(pending, ", "), context.Cause(ctx))
		}
	}
}

// pendingHooks names the hooks that are not done.
func pendingHooks(crds *crdserver.CustomResourceDefinitions) []string {
	var pending []string
	for _, check := range crds.GenericAPIServer.HealthzChecks() {
		if strings.HasPrefix(check.Name(), hookPrefix) && check.Check(nil) != nil {
			pending = append(pending, check.Name())
		}
	}
	return pending
}

// run runs the hooks, and returns when they are done.
func (h *hooks) run(ctx, run context.Context, crds *crdserver.CustomResourceDefinitions) error {
	crds.GenericAPIServer.RunPostStartHooks(run)
	h.ran = true
	return waitForHooks(ctx, crds)
}

// end waits, with patience, for the hooks of a server whose run was cancelled.
func (h *hooks) end(run context.Context, crds *crdserver.CustomResourceDefinitions) error {
	ctx, cancel := context.WithTimeout(context.Background(), h.patience)
	defer cancel()
	if !h.ran {
		return h.run(ctx, run, crds) // the CRD server's controllers end only if they ran
	}
	return waitForHooks(ctx, crds)
}
