// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/campaign"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// TestAFaultThatIsNotReachedIsSaid has a controller that does something in the runs without a fault alone.
func TestAFaultThatIsNotReachedIsSaid(t *testing.T) {
	var runs atomic.Int32
	c := &copier{}
	report, err := campaign.Run(t.Context(), campaign.Plan{
		Only: "conflict: update core/secrets default/a #1",
		Controller: func(ctx context.Context, config *rest.Config) error {
			if runs.Add(1) > 2 {
				<-ctx.Done()
				return nil
			}
			return c.run(ctx, config)
		},
		Steps: createAndChange,
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `without a fault: 4 requests, 2 events
with a fault: 1 runs; 0 end the same, 0 differ, 1 did not reach the fault

NOT REACHED
  Only: "conflict: update core/secrets default/a #1"
  after step "create":
  v1 Secret default/a is missing
`
	if report.String() != want {
		t.Errorf("%s\nand not\n%s", report, want)
	}
}

// TestTheEndOfItsContextEndsACampaign ends it when the third run with a fault begins.
func TestTheEndOfItsContextEndsACampaign(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var runs atomic.Int32
	c := &copier{}
	report, err := campaign.Run(ctx, campaign.Plan{
		Parallel: 1, Steps: createAndChange,
		Controller: func(ctx context.Context, config *rest.Config) error {
			if c.seen(config) == 0 && runs.Add(1) == 5 {
				cancel()
			}
			return c.run(ctx, config)
		},
	})
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Fatal(report, err)
	}
	if len(report.Runs) != 2 || report.LeftOut != 10 || report.Runs[1].Outcome != campaign.Same {
		t.Error(report)
	}
	if report, err := campaign.Run(ctx, campaign.Plan{Controller: c.run, Steps: createAndChange}); !errors.Is(err, context.Canceled) || report != nil {
		t.Error(report, err)
	}
}

// TestProblemsAreSaid has what can be wrong without a fault.
func TestProblemsAreSaid(t *testing.T) {
	idle := func(ctx context.Context, _ *rest.Config) error { <-ctx.Done(); return nil }
	nothing := []campaign.Step{{Name: "do nothing", Do: func(context.Context, client.Client) error { return nil }}}
	broken := func(context.Context, client.Client) error { return errors.New("broken") }
	const soon = 20 * time.Millisecond // for controllers that do nothing
	stays := make(chan struct{})
	t.Cleanup(func() { close(stays) })
	for name, c := range map[string]struct {
		plan campaign.Plan
		want string
	}{
		"an empty plan":    {campaign.Plan{}, "campaign.Plan.Controller is nil"},
		"no steps":         {campaign.Plan{Controller: idle}, "campaign.Plan.Steps is empty"},
		"an empty step":    {campaign.Plan{Controller: idle, Steps: []campaign.Step{{}}}, "campaign.Plan.Steps[0].Do is nil"},
		"another Injector": {campaign.Plan{Controller: idle, Steps: nothing, Options: envtest.Options{Faults: faults.New()}}, "campaign.Plan.Options.Faults is set"},
		"a negative limit": {campaign.Plan{Controller: idle, Steps: nothing, Limit: -1}, "negative"},
		"an environment":   {campaign.Plan{Controller: idle, Steps: nothing, Options: envtest.Options{DataDirectory: "/nowhere"}}, "/nowhere"},
		"a step":           {campaign.Plan{Controller: idle, Quiet: soon, Steps: []campaign.Step{{Name: "one", Do: broken}}}, `step "one": broken`},
		"a check":          {campaign.Plan{Controller: idle, Quiet: soon, Steps: nothing, Check: broken}, "check: broken"},
		"a controller that returns": {
			campaign.Plan{Steps: nothing, Controller: func(context.Context, *rest.Config) error { return nil }},
			"at its start, the controller has ended by itself: it returned no error",
		},
		"a controller that fails": {
			campaign.Plan{Steps: nothing, Controller: func(context.Context, *rest.Config) error { return errors.New("failed") }},
			"at its start, the controller has ended by itself: failed",
		},
		"a controller that never settles": {
			campaign.Plan{Steps: nothing, Controller: polls, Patience: 2 * time.Second, Quiet: time.Second},
			"at its start, the controller did not settle within 2s, at last: list core/secrets default/ #",
		},
		"a controller that stays": {
			campaign.Plan{Steps: nothing, Quiet: soon, Patience: 5 * time.Second, Controller: func(context.Context, *rest.Config) error { <-stays; return nil }},
			"at the end, the controller does not end with its context",
		},
		"a controller that writes something else each time": {
			campaign.Plan{Steps: createAndChange[:1], Controller: writesItsAddress},
			"two runs end differently: let Plan.Normalize remove what is otherwise each time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if report, err := campaign.Run(t.Context(), c.plan); err == nil || !strings.Contains(err.Error(), c.want) || report != nil {
				t.Errorf("%v, %v: want an error with %q", report, err, c.want)
			}
		})
	}
}

// polls is a controller that asks without end.
func polls(ctx context.Context, config *rest.Config) error {
	k, err := kubernetes.NewForConfig(config)
	for err == nil {
		_, err = k.CoreV1().Secrets(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	}
	<-ctx.Done()
	return nil
}

// writesItsAddress is a controller whose ConfigMaps differ.
func writesItsAddress(ctx context.Context, config *rest.Config) error {
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	cm := configMap(config.Host)
	cm.Name = "address"
	if _, err := k.CoreV1().ConfigMaps(cm.Namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// TestNormalizeRemoves lets the user leave out an object, and a field of another.
func TestNormalizeRemoves(t *testing.T) {
	plan := campaign.Plan{Steps: createAndChange[:1], Controller: writesItsAddress, Limit: 1}
	plan.Normalize = func(o *unstructured.Unstructured) bool { return o.GetName() != "address" }
	if report, err := campaign.Run(t.Context(), plan); err != nil || len(report.Runs) != 1 {
		t.Error(report, err)
	}
	plan.Normalize = func(o *unstructured.Unstructured) bool {
		if o.GetName() == "address" {
			unstructured.RemoveNestedField(o.Object, "data", "key")
		}
		return true
	}
	if report, err := campaign.Run(t.Context(), plan); err != nil || len(report.Runs) != 1 {
		t.Error(report, err)
	}
}

// TestAControllerThatEndsIsStartedAgain has a controller that gives up when a request fails.
func TestAControllerThatEndsIsStartedAgain(t *testing.T) {
	j := &journal{}
	_, err := campaign.Run(t.Context(), campaign.Plan{
		Only: "error: get core/namespaces default/default #1", Steps: createAndChange[:1],
		Controller: func(ctx context.Context, config *rest.Config) error {
			k, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			_, err = k.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
			j.note(config, what(err))
			if err == nil {
				<-ctx.Done()
			}
			return err
		},
	})
	if err != nil || j.last() != "InternalError, ok" {
		t.Error(j.last(), err)
	}
}
