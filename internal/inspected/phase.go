// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspected

import "strings"

// State is where an informer is in its life.
type State struct {
	Phase Phase
	// Err says why the informer is not where it should be: a *NotSyncedError or a *StaleError of package informers, or
	// what fails now. It is nil otherwise.
	Err error
	// Cause is the informers.Cause of what fails; empty if nothing is known to fail.
	Cause string
}

// Phase is where an informer is in its life, for people who look at it.
type Phase string

const (
	// Waiting informers belong to a cache that is not started.
	Waiting Phase = "not started"
	// Synced informers have synced, and follow the API server.
	Synced Phase = "synced"
	// Lists informers receive their first list, and nothing has failed.
	Lists Phase = "listing"
	// Dormant informers are of an optional kind that is not served.
	Dormant Phase = "dormant"
	// Silent informers have synced, and the API server has told them nothing for longer than a watch may
	// be silent: it has nothing to tell, or does not come through.
	Silent Phase = "silent"
	// Interrupted informers have synced, and cannot follow now. Reads show what there was.
	Interrupted Phase = "interrupted"
	// Incomplete informers follow, and lack objects because a function of the user failed for them.
	Incomplete Phase = "incomplete"
	// Stalled informers are silent for so long that the check of readiness fails.
	Stalled Phase = "stalled"
	// NotSynced informers have not synced, or cannot follow until somebody does something.
	NotSynced Phase = "not synced"
)

// Label returns the phase as labels of metrics have it: one word.
func (p Phase) Label() string { return strings.ReplaceAll(string(p), " ", "_") }

// Phases are all phases, from the worst to the best.
var Phases = []Phase{NotSynced, Stalled, Incomplete, Interrupted, Silent, Dormant, Lists, Waiting, Synced}
