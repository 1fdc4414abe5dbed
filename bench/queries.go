// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// differentQueries is how many there are of each kind. They are far more than the
// processor's caches keep objects of.
const differentQueries = 1 << 14

// draw returns Pods, by the seed alone; queries ask for them or for what they have.
func draw(cluster synthetic.Cluster, pods int) []synthetic.Identity {
	random := rand.New(rand.NewPCG(cluster.Seed, 1<<32))
	all := make([]synthetic.Identity, min(differentQueries, 4*pods))
	for i := range all {
		all[i] = cluster.Identity(random.IntN(pods))
	}
	return all
}

// hotPods is how many the reads of a few Pods ask for.
const hotPods = 10

// listQuery is a kind of list. Its options are made for each call, as callers do.
type listQuery struct {
	measure   string
	different int // how many there are
	options   func(of synthetic.Identity) ([]client.ListOption, error)
}

// of returns those Pods that the query asks for.
func (q listQuery) of(pods []synthetic.Identity) []synthetic.Identity {
	return pods[:min(q.different, len(pods))]
}

func listQueries() []listQuery {
	return []listQuery{
		{listAll, 1, func(synthetic.Identity) ([]client.ListOption, error) { return nil, nil }},
		{listNamespace, differentQueries, func(of synthetic.Identity) ([]client.ListOption, error) {
			return []client.ListOption{client.InNamespace(of.Namespace)}, nil
		}},
		{listLabel, differentQueries, byApp},
		{listLabels, differentQueries, byAppsAndTrack},
		{listField, differentQueries, byNode},
		{listFieldSame, 1, byNode},
		{listFieldLabel, 1, func(of synthetic.Identity) ([]client.ListOption, error) {
			return []client.ListOption{
				client.MatchingFields{synthetic.NodeField: of.Node}, client.MatchingLabels{synthetic.TierLabel: of.Tier},
			}, nil
		}},
	}
}

// uncopied lists what the cache itself keeps, which it learns from the call alone.
func uncopied() listQuery {
	return listQuery{listUncopied, 1, func(synthetic.Identity) ([]client.ListOption, error) {
		return []client.ListOption{client.UnsafeDisableDeepCopy}, nil
	}}
}

func byNode(of synthetic.Identity) ([]client.ListOption, error) {
	return []client.ListOption{client.MatchingFields{synthetic.NodeField: of.Node}}, nil
}

func byApp(of synthetic.Identity) ([]client.ListOption, error) {
	return []client.ListOption{client.MatchingLabels{synthetic.AppLabel: of.App}}, nil
}

// byAppsAndTrack selects three quarters of the Pods of two apps.
func byAppsAndTrack(of synthetic.Identity) ([]client.ListOption, error) {
	apps, err := labels.NewRequirement(synthetic.AppLabel, selection.In, []string{of.App, of.NextApp()})
	if err != nil {
		return nil, err
	}
	track, err := labels.NewRequirement(synthetic.TrackLabel, selection.NotEquals, []string{synthetic.Canary})
	if err != nil {
		return nil, err
	}
	return []client.ListOption{client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*apps, *track)}}, nil
}
