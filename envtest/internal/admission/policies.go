// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/client-go/informers"
)

// renewable is the admission plugin of policies. Upstream's plugin looks once a second whether policies have changed,
// and cannot be told to look earlier; a new plugin reads them at once. One caller at a time renews it. Once it has
// begun, requests may come meanwhile: the plugin before answers those that it has.
type renewable struct {
	run     context.Context // of the server
	create  func(stop <-chan struct{}) (admission.Interface, error)
	current atomic.Pointer[policyPlugin]
}

var (
	_ admission.MutationInterface   = (*renewable)(nil)
	_ admission.ValidationInterface = (*renewable)(nil)
)

// errNotReady says that the informers of a new plugin have not synced in the time that the plugin gives them.
var errNotReady = errors.New("their informers have not synced in time")

// policyPlugin is a plugin with what ends its goroutines.
type policyPlugin struct {
	admission.Interface
	end context.CancelFunc
}

// newRenewable returns one that refuses all until the first call of replace. create makes a plugin that ends with the channel.
func newRenewable(run context.Context, create func(stop <-chan struct{}) (admission.Interface, error)) *renewable {
	r := &renewable{run: run, create: create}
	r.current.Store(&policyPlugin{notBegun{}, func() {}})
	return r
}

// notBegun refuses all requests.
type notBegun struct{}

// errNotBegun is for a request that came before the server was ready.
var errNotBegun = errors.New("admission policies have not begun")

func (notBegun) Handles(admission.Operation) bool { return true }

func (notBegun) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errNotBegun)
}

func (notBegun) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errNotBegun)
}

// watchPolicies makes the informers of the plugin with a name, so that they have synced when the plugin is made.
func watchPolicies(factory informers.SharedInformerFactory, name string) {
	factory.Core().V1().Namespaces().Informer()
	policies := factory.Admissionregistration().V1()
	if name == mutatingpolicy.PluginName {
		policies.MutatingAdmissionPolicies().Informer()
		policies.MutatingAdmissionPolicyBindings().Informer()
		return
	}
	policies.ValidatingAdmissionPolicies().Informer()
	policies.ValidatingAdmissionPolicyBindings().Informer()
}

// replace lets a new plugin answer.
func (r *renewable) replace() error {
	ctx, cancel := context.WithCancel(r.run)
	plugin, err := r.create(ctx.Done())
	if err != nil {
		cancel()
		return err
	}
	r.current.Swap(&policyPlugin{plugin, cancel}).end()
	return nil
}

// Renew returns when the informers' policies are in force.
func (r *renewable) Renew(ctx context.Context) error {
	if err := r.replace(); err != nil {
		return fmt.Errorf("begin anew with admission policies: %w", err)
	}
	plugin, ok := r.current.Load().Interface.(interface{ WaitForReady() bool })
	if ok && !plugin.WaitForReady() { // after ten seconds, whatever ctx is
		return fmt.Errorf("admission policies are not read: %w", cmp.Or(context.Cause(ctx), errNotReady))
	}
	return nil
}

// Handles implements admission.Interface.
func (r *renewable) Handles(operation admission.Operation) bool {
	return r.current.Load().Handles(operation)
}

// Admit implements admission.MutationInterface.
func (r *renewable) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if mutating, ok := r.current.Load().Interface.(admission.MutationInterface); ok {
		return mutating.Admit(ctx, a, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (r *renewable) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if validating, ok := r.current.Load().Interface.(admission.ValidationInterface); ok {
		return validating.Validate(ctx, a, o)
	}
	return nil
}
