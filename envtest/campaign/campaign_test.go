// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest/campaign"
)

// TestEachFaultHitsItsPointAlone makes a whole campaign, with many environments at once, and looks at what the controllers notice:
// each fault happens in one of them, once, there, and as it is called.
func TestEachFaultHitsItsPointAlone(t *testing.T) {
	const (
		created = "start, ADDED a, get: NotFound, create: ok, "
		changed = "MODIFIED a, get: ok, update: ok"
	)
	want := []string{
		created + changed, created + changed, // without a fault
		created + changed, created + changed, // with a stale cache of ConfigMaps, which is all that the controller follows
		"start, " + created + changed, // a restart before the first event
		"start, ADDED a, get: InternalError, get: NotFound, create: ok, " + changed,
		"start, ADDED a, get: NotFound, create: InternalError, get: NotFound, create: ok, " + changed,
		"start, ADDED a, get: NotFound, create: no answer, get: ok, update: ok, " + changed,
		"start, ADDED a, get: NotFound, create: ended, start, ADDED a, get: ok, update: ok, " + changed,
		created + "start, ADDED a, get: ok, update: ok", // a restart before the second event
		created + "MODIFIED a, get: InternalError, get: ok, update: ok",
		created + "MODIFIED a, get: ok, update: Conflict, get: ok, update: ok",
		created + "MODIFIED a, get: ok, update: no answer, get: ok, update: ok",
		created + "MODIFIED a, get: ok, update: ended, start, ADDED a, get: ok, update: ok",
	}
	c := &copier{}
	report, err := campaign.Run(t.Context(), campaign.Plan{Controller: c.run, Steps: createAndChange, Parallel: 8})
	if err != nil {
		t.Fatal(err)
	}
	if report.String() != "without a fault: 4 requests, 2 events\nwith a fault: 12 runs; 12 end the same, 0 differ, 0 did not reach the fault\n" {
		t.Error(report)
	}
	runs := c.runs()
	slices.Sort(want)
	slices.Sort(runs)
	if !slices.Equal(runs, want) {
		t.Errorf("the controllers have seen\n\t%s\nand not\n\t%s", strings.Join(runs, "\n\t"), strings.Join(want, "\n\t"))
	}
	var faults []string
	for _, r := range report.Runs {
		faults = append(faults, r.Fault)
	}
	if got := strings.Join(faults[:4], ", "); got != "restart: event ADDED core/configmaps default/a #1, stale cache: event ADDED core/configmaps default/a #1, "+
		"error: get core/secrets default/a #1, error: create core/secrets default/a #1" {
		t.Error(got)
	}
}

// TestAStaleCacheIsBehind holds an event back until the controller has settled: what happened later comes before.
func TestAStaleCacheIsBehind(t *testing.T) {
	j := &journal{}
	_, err := campaign.Run(t.Context(), campaign.Plan{
		Only: "stale cache: event ADDED core/configmaps default/a #1",
		Controller: func(ctx context.Context, config *rest.Config) error {
			k, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			secrets, err := k.CoreV1().Secrets(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			defer secrets.Stop()
			go func() {
				for e := range secrets.ResultChan() { // until Stop
					if e.Type == watch.Added {
						j.note(config, "Secret")
					}
				}
			}()
			return follow(ctx, k, func(watch.Event) { j.note(config, "ConfigMap") })
		},
		Steps: []campaign.Step{{Name: "create two", Do: func(ctx context.Context, c client.Client) error {
			return errors.Join(c.Create(ctx, configMap("1")),
				c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "b"}}))
		}}},
	})
	if err != nil || j.last() != "Secret, ConfigMap" {
		t.Error(j.last(), err)
	}
}

// TestADifferenceIsReported plants a bug: a controller that is not sure whether it has created something does so again.
func TestADifferenceIsReported(t *testing.T) {
	once := func(ctx context.Context, config *rest.Config) error {
		k, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return follow(ctx, k, func(e watch.Event) {
			cm := e.Object.(*corev1.ConfigMap)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: cm.Name + "-"}, StringData: cm.Data}
			for ctx.Err() == nil {
				if _, err := k.CoreV1().Secrets(cm.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err == nil {
					return
				}
			}
		})
	}
	plan := campaign.Plan{Controller: once, Steps: createAndChange[:1], Limit: 4}
	report, err := campaign.Run(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	const want = `without a fault: 1 requests, 1 events
with a fault: 4 runs; 3 end the same, 1 differ, 0 did not reach the fault
left out: 1 runs

DIFFERS
  Only: "lost answer: create core/secrets default/a-* #1"
  after step "create":
  v1 Secret default/a-* (2) is there, and is not without the fault
`
	if report.String() != want {
		t.Errorf("%s\nand not\n%s", report, want)
	}
	again := plan
	again.Only = report.Differing()[0].Fault
	if report, err = campaign.Run(t.Context(), again); err != nil || len(report.Differing()) != 1 || len(report.Runs) != 1 {
		t.Error(report, err)
	}
	again.Only = "conflict: of nothing"
	if _, err = campaign.Run(t.Context(), again); err == nil || !strings.Contains(err.Error(), `there is no "conflict: of nothing"`) {
		t.Error(err)
	}
}
