// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Campaign runs a small operator once for each fault that can happen at its requests and at the events of its watches, and
// prints which runs ended differently. The right operator has none. Each of three variants has a bug that no run without a
// fault shows.
//
//	go run ./examples/campaign
//	go run ./examples/campaign -bug 'a stale read' -only 'stale cache: event ADDED core/pods default/web-* #1'
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest/campaign"
	"github.com/tarn-dev/tarn/internal/program"
)

func main() {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	program.Main("campaign", run)
}

func run(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := flag.NewFlagSet("campaign", flag.ContinueOnError)
	flags.SetOutput(out)
	which := flags.String("bug", "", "run the operator with this `bug` alone")
	only := flags.String("only", "", "make the run with this `fault` alone")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, b := range []bug{noBug, staleRead, writtenTwice, lostEvent} {
		if *which != "" && bug(*which) != b {
			continue
		}
		plan := planFor(b)
		plan.Only = *only
		report, err := campaign.Run(ctx, plan)
		if err != nil {
			return fmt.Errorf("an operator with %s: %w", b, err)
		}
		fmt.Fprintf(out, "# An operator with %s\n\n%s\n", b, report)
	}
	return nil
}

// planFor is the campaign for the operator with a bug.
func planFor(b bug) campaign.Plan {
	return campaign.Plan{
		Controller: func(ctx context.Context, cfg *rest.Config) error { return operate(ctx, cfg, b) },
		Steps: []campaign.Step{
			{Name: "create the app", Do: func(ctx context.Context, c client.Client) error {
				return c.Create(ctx, app("v1"))
			}},
			{Name: "upgrade it", Do: func(ctx context.Context, c client.Client) error {
				return c.Patch(ctx, app(""), client.RawPatch(client.Merge.Type(), []byte(`{"data":{"version":"v2"}}`)))
			}},
			{Name: "delete it", Do: func(ctx context.Context, c client.Client) error {
				return c.Delete(ctx, app(""))
			}},
		},
	}
}

func app(v string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web", Labels: map[string]string{appLabel: "web"}},
		Data:       map[string]string{version: v},
	}
}
