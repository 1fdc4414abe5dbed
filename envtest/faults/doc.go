// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults lets an API server of tests fail and lag on command.
//
// An Injector stands between the clients of a server and its handlers. A Rule says which requests are meant, and an
// Action what happens to them:
//
//	injector := faults.New()
//	env := envtest.New(envtest.Options{Faults: injector})
//	...
//	conflict, err := injector.Inject(faults.Rule{Verb: "update", Resource: "deployments", Times: 1}, faults.Respond(apierrors.NewConflict(...)))
//	...
//	err = conflict.Wait(ctx, 1) // until it was hit
//
// Hold holds back requests, and the events of watches, until the test lets them go, one by one or all together. So a test can
// let a controller work with a stale cache, without a sleep:
//
//	hold, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "pods"})
//	... // the controller reconciles, and does not see what it wrote
//	event, err := hold.Next(ctx) // it sees one event
//	hold.End()                   // it sees all
//
// HoldAnswers lets writes take effect and their clients wait. Rule.When is a function of the test that chooses among what the
// other fields of a rule match: package campaign finds with it each request and event of a controller.
//
// # Fault points
//
// A rule with the verb watch means requests for a watch and, with Hold, Cut and Expire, the events of watches that are open. A Hold
// whose rule has no verb means requests and events. All other rules mean requests. Rule.Station names another place, inside a server
// of package envtest: Storage, Etcd, Webhook and Clock, each with what it knows of a call:
//
//	full, err := injector.Inject(faults.Rule{Station: faults.Etcd, Verb: "txn"}, faults.Respond(rpctypes.ErrNoSpace))
//
// Environment.StopEtcd, StartEtcd and CompactEtcd are beside them.
//
// An Injector works in the server of package envtest, where it knows the users, and as a proxy before any other API server, see
// Injector.Handler. WebSockets pass it untouched, and watches in another form than JSON or protobuf.
//
// # To add an action
//
// Implement the interface of each fault point where it has an effect, give it its name in nameOf (point.go) and a
// line in everyAction (happens_test.go), and say in docs/faults.md what it does. Below envtest/internal, server/chain.go,
// stores/stores.go, admission/webhooks.go and server/access.go put the fault points in.
//
// # Files
//
//   - injector.go, point.go, request.go: rules, the fault points that they name, and which requests they mean
//   - action.go, clock.go: what an action does to a request, a call or the clock; hold.go holds requests back
//   - stream.go, event.go: open watches and their events
//   - storage.go, call.go, etcd.go, webhook.go, proxy.go: the fault points, and attach.go, which joins an Injector and a server
//
// # Memory
//
// An Injector keeps nothing for requests that no rule means. A Hold keeps at most 64 MiB of events and answers. A watch keeps at
// most 64 MiB of events that wait behind these. Then the watch is cut, as a server does with a client that is too slow.
//
// All methods are safe for concurrent use.
package faults
