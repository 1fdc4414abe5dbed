// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package campaign finds out what a controller does when something goes wrong.
//
// Run lets a controller do its work without a fault, and notes each request that it makes and each event that its watches get. Then
// it does the same again, once for each thing that can go wrong at each of them, and reports the runs that have led to something
// else:
//
//	report, err := campaign.Run(ctx, campaign.Plan{
//		Controller: func(ctx context.Context, config *rest.Config) error { ... return mgr.Start(ctx) },
//		Steps:      []campaign.Step{{Name: "create it", Do: func(ctx context.Context, c client.Client) error { return c.Create(ctx, object) }}},
//	})
//	...
//	if len(report.Differing()) > 0 {
//		t.Error(report)
//	}
//
// The idea is that of Sieve (Sun et al., Automatic Reliability Testing For Cluster Management Controllers, OSDI 2022). Here it
// takes one process, and some seconds for a small controller.
//
// It finds what the steps of the plan trigger, and nothing else. Write a step for each thing that a user does to an object of the
// controller: create it, change each field that matters to the controller, change it back, and delete it. Delete and change
// objects that the controller has made. Do what others do to the objects that it reads, such as a Secret that appears late.
//
// # Faults
//
//   - conflict: an update, patch or deletion has no effect, and is answered with 409.
//   - error: another write has no effect, or a read that asks the server fails, with 500.
//   - lost answer: a write takes effect, and the connection is cut in place of the answer.
//   - restart: the controller is ended when a write has taken effect, without an answer, or before it sees an event; then it is
//     started again.
//   - stale cache: an event waits, and those behind it in the same watch, until the controller has settled or made some more
//     requests.
//
// One thing goes wrong in a run. The requests and watches of the config that Plan.Controller gets have faults, and no others: not
// those for which a controller impersonates somebody. No fault happens to requests for discovery, to the beginnings of watches,
// or to what a cache of this project asks to learn which kinds are served.
//
// # Points
//
// A fault is told by what it hits: the verb, the group and resource, the object, and the number of the request or event among those that
// are like it. So it is the same one in each run, whatever the order in which different objects take their turns. The controller may
// do something else after all; then the fault is not reached, and the report says so.
//
// # What is compared
//
// After each step, when the controller has settled, all objects in the server, of all kinds but events, leases, IP addresses and
// APIServices. These fields are left out: uid, resourceVersion, generation, managedFields and creationTimestamp of metadata, the
// UIDs of owners, observedGeneration, nodePort, and the cluster IPs of Services. A time counts as a time, the UID of an object as
// a UID. A generated name counts as what it was generated from, wherever it stands. The values in Secrets are compared, and never
// shown. Objects with the address or the certificates of the server are compared by presence alone. Plan.Normalize removes what
// else is otherwise each time. Two runs without a fault must end the same.
//
// # Isolation
//
// Each run has an environment of its own, with its own server, storage and faults; several run at once. Controllers share the
// process: they must not share its globals, such as ports and names of metrics.
//
// # Memory
//
// A campaign keeps the points and states of the runs without a fault, 20,000 points at most, and of each other run how it ended.
//
// # Files
//
//   - plan.go, campaign.go and report.go are the API: the plan, the runs, and their outcomes.
//   - point.go and fault.go say where something can go wrong, and what.
//   - run.go is one run; activity.go sees whether its controller does something; state.go is what it has led to.
package campaign
