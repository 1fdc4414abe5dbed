// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
)

// Plan says what a campaign does. Controller and Steps are required. Its functions are called by several runs at once, each with
// an environment of its own: what they share must be safe for concurrent use.
type Plan struct {
	// Options are the options of each environment. Faults must be nil: the campaign has its own.
	Options envtest.Options

	// Controller runs the controller that is tested until the context ends, and returns when all of it has ended: a manager of
	// controller-runtime does so in Start. The config belongs to it alone, and its user may do everything. A run may call it
	// several times, one after the other. A controller that returns by itself is started again, as by a kubelet, three times
	// at most; in the runs without a fault this is an error. It must not write without end: leave leader election off.
	Controller func(ctx context.Context, config *rest.Config) error

	// Steps are what users do, in order. After each, the campaign waits until the controller has settled, and notes what is in
	// the server.
	Steps []Step

	// Check, if set, looks at the end. Its error makes a run differ. It is an error of the campaign in the runs without a fault.
	Check func(ctx context.Context, c client.Client) error

	// Normalize, if set, may change an object before it is compared, which belongs to it: remove what is otherwise each time. If
	// it returns false, the object is left out. See the package for what is removed already.
	Normalize func(object *unstructured.Unstructured) bool

	// Scheme is the scheme of the clients of Steps and Check. The default is client-go's.
	Scheme *runtime.Scheme

	// Quiet is how long a controller neither asks nor is told anything when it has settled: longer than its pauses between two
	// reconciliations of an object. The controllers of Options.Controllers are quiet for this time too. The default is 300 ms.
	Quiet time.Duration

	// Patience is how long a controller may take to settle, or to end with its context, and the contexts of a step and of Check
	// last. A run that takes longer differs. The default is 30 s.
	Patience time.Duration

	// Parallel is how many runs there are at once, each with a server. The default is 4.
	Parallel int

	// Limit bounds the runs with a fault. If there could be more runs, the faults are spread evenly over what the controller
	// did, and the report says how many are left out. The default is 1,000.
	Limit int

	// Only is the fault of one run, in the words of a report, to repeat it. The runs without a fault are made too.
	Only string
}

// Step is something that a user does.
type Step struct {
	// Name is how the report calls it.
	Name string
	// Do does it. The client asks the server, without a cache, as an administrator, and no fault hits its requests. An error
	// makes the run differ.
	Do func(ctx context.Context, c client.Client) error
}

const (
	defaultQuiet    = 300 * time.Millisecond // many times what an answer of a server in the same process takes
	defaultPatience = 30 * time.Second
	defaultParallel = 4 // they wait most of the time
	defaultLimit    = 1000
)

// completed returns the plan with its defaults, or what is wrong with it.
func (p Plan) completed() (*Plan, error) {
	var errs []error
	if p.Controller == nil {
		errs = append(errs, errors.New("campaign.Plan.Controller is nil: there is nothing to test"))
	}
	if len(p.Steps) == 0 {
		errs = append(errs, errors.New("campaign.Plan.Steps is empty: a controller with nothing to do shows nothing"))
	}
	for i, s := range p.Steps {
		if s.Do == nil {
			errs = append(errs, fmt.Errorf("campaign.Plan.Steps[%d].Do is nil: leave the step out", i))
		}
	}
	if p.Options.Faults != nil {
		errs = append(errs, errors.New("campaign.Plan.Options.Faults is set: the campaign has an Injector of its own for each environment"))
	}
	if p.Quiet < 0 || p.Patience < 0 || p.Parallel < 0 || p.Limit < 0 {
		errs = append(errs, errors.New("campaign.Plan has a negative Quiet, Patience, Parallel or Limit: use zero for the default"))
	}
	p.Quiet, p.Patience = orDefault(p.Quiet, defaultQuiet), orDefault(p.Patience, defaultPatience)
	p.Parallel, p.Limit = orDefault(p.Parallel, defaultParallel), orDefault(p.Limit, defaultLimit)
	return &p, errors.Join(errs...)
}

func orDefault[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}
