// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Station is a fault point: a place where faults can happen. Each knows some fields of a Rule, beside Skip and Times, and some
// actions. Inject refuses the others. Hold and HoldAnswers work at HTTP alone.
type Station int

const (
	// HTTP is between clients and the handlers of the server: requests, and the events of watches. It knows all fields but Path, and
	// all actions but Corrupt and Shift. It is the zero value.
	HTTP Station = iota

	// Storage is between the watch cache of a resource, or the handlers if there is none, and etcd. The verbs are get, list, watch,
	// create, update and delete; a patch is an update. A rule may have Verb, Group, Resource, Namespace, Name, User and When.
	//
	// The actions are Respond, Delay and Corrupt, and for the verb watch Expire and Cut(0), which happen to the watches that are open, too.
	//
	// Calls of the watch caches have no user: rules without a User mean them, too. Requests of the server to itself are left alone,
	// and so are all calls before Start returns, unless the User of the rule is system:apiserver.
	Storage

	// Etcd is between the storage and etcd. The verbs are range, txn, watch and lease, as etcd calls them. A rule may have Verb, Group,
	// Resource, User and When. The actions are Respond and Delay. Whose calls are meant is as at Storage.
	Etcd

	// Webhook is between the server and the webhooks for admission and conversion that it calls. A rule may have Path and When. The
	// actions are Respond, Delay and DropRequest. The webhook does not see a call that Respond or DropRequest hits.
	Webhook

	// Clock is the clock by which the server judges whether client certificates and tokens of service accounts are valid. The one
	// action is Shift. A rule may have nothing but Skip and Times.
	Clock

	faultPoints // how many there are
)

// String returns the name of the fault point as in Go.
func (s Station) String() string {
	switch s {
	case HTTP:
		return "HTTP"
	case Storage:
		return "Storage"
	case Etcd:
		return "Etcd"
	case Webhook:
		return "Webhook"
	case Clock:
		return "Clock"
	}
	return fmt.Sprintf("Station(%d)", int(s))
}

// The verbs of etcd, beside watch.
const (
	verbRange = "range"
	verbTxn   = "txn"
	verbLease = "lease"
)

// knowledge is what a fault point knows: fields of a rule, and its verbs.
type knowledge struct{ fields, verbs []string }

// inside are the fault points inside the server.
var inside = map[Station]knowledge{
	Storage: {
		[]string{"Verb", "Group", "Resource", "Namespace", "Name", "User", "When"},
		[]string{verbGet, verbList, verbWatch, verbCreate, verbUpdate, verbDelete},
	},
	Etcd:    {[]string{"Verb", "Group", "Resource", "User", "When"}, []string{verbRange, verbTxn, verbWatch, verbLease}},
	Webhook: {[]string{"Path", "When"}, nil},
	Clock:   {nil, nil},
}

// check returns why nothing can match the rule.
func (r *Rule) check(proxied bool) error {
	known, within := inside[r.Station]
	switch {
	case !within && r.Station != HTTP:
		return fmt.Errorf("there is no fault point %s", r.Station)
	case strings.ContainsAny(r.Resource, "/ "):
		return fmt.Errorf("a rule with the resource %q matches nothing: the subresource is a field of its own", r.Resource)
	case r.Resource != strings.ToLower(r.Resource):
		return fmt.Errorf("a rule with the resource %q matches nothing: resources are in lower case and plural, such as pods", r.Resource)
	case r.Skip < 0 || r.Times < 0:
		return errors.New("a rule with negative numbers")
	case r.Station == HTTP && r.Path != "":
		return errors.New("a rule with a path: it is that of a webhook, and only the fault point Webhook knows it")
	case r.Station == HTTP:
		return r.checkHTTP(!proxied)
	case proxied:
		return fmt.Errorf("a rule for the fault point %s, which is inside the server: a proxy before one has only %s", r.Station, HTTP)
	}
	for _, field := range r.fields() {
		if !slices.Contains(known.fields, field) {
			return fmt.Errorf("a rule with %s matches nothing at the fault point %s, which knows %s",
				field, r.Station, strings.Join(append(slices.Clone(known.fields), "Skip", "Times"), ", "))
		}
	}
	if r.Verb != "" && !slices.Contains(known.verbs, r.Verb) {
		return fmt.Errorf("a rule with the verb %q matches nothing at the fault point %s: its verbs are %s",
			r.Verb, r.Station, strings.Join(known.verbs, ", "))
	}
	return nil
}

// fields returns the names of the fields that are set, without the numbers and the fault point.
func (r *Rule) fields() []string {
	var names []string
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"Verb", r.Verb != ""}, {"Group", r.Group != ""}, {"Resource", r.Resource != ""}, {"Subresource", r.Subresource != ""},
		{"Namespace", r.Namespace != ""}, {"Name", r.Name != ""}, {"User", r.User != ""}, {"UserAgent", r.UserAgent != ""},
		{"Type", r.Type != ""}, {"Path", r.Path != ""}, {"When", r.When != nil},
	} {
		if one.set {
			names = append(names, one.name)
		}
	}
	return names
}

// happensAt says whether an action has an effect at a fault point.
func happensAt(action Action, p Station) bool {
	_, requests := action.(requestAction)
	_, events := action.(streamAction)
	_, calls := action.(callAction)
	_, reads := action.(readAction)
	_, webhooks := action.(webhookAction)
	_, clock := action.(clockAction)
	return map[Station]bool{HTTP: requests || events, Storage: calls || reads || events, Etcd: calls, Webhook: webhooks, Clock: clock}[p]
}

// fits returns why the action cannot happen to what the rule matches.
func (r *Rule) fits(action Action) error {
	if !happensAt(action, r.Station) {
		return fmt.Errorf("%s cannot happen at the fault point %s", nameOf(action), r.Station)
	}
	if events, ok := action.(streamAction); r.Type != "" && (!ok || events.atOnce()) {
		return fmt.Errorf("%s happens to requests and whole watches: its rule has no type of events", nameOf(action))
	}
	return action.fits(r)
}

// nameOf returns the name of the function that makes the action.
func nameOf(action Action) string {
	switch action.(type) {
	case respond:
		return "Respond"
	case delay:
		return "Delay"
	case dropRequest:
		return "DropRequest"
	case dropAnswer:
		return "DropAnswer"
	case halfAnswer:
		return "HalfAnswer"
	case corrupt:
		return "Corrupt"
	case shift:
		return "Shift"
	case expire:
		return "Expire"
	case cut:
		return "Cut"
	}
	return fmt.Sprintf("%T", action)
}

// String describes the rule for messages.
func (r *Rule) String() string {
	parts := []string{r.Station.String()}
	for _, part := range []string{r.Verb, r.Group, r.Resource, r.Namespace, r.Name, r.User, r.Path} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}
