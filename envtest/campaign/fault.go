// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/faults"
)

// fault is something that goes wrong at a point of a run.
type fault struct {
	kind  *kind
	point point
}

// String is how reports call it, and Plan.Only.
func (f *fault) String() string { return f.kind.name + ": " + f.point.String() }

// kind is what goes wrong.
type kind struct {
	name string
	at   func(point) bool // where it can
	// met notes what the controller does next, when the fault happens.
	met func(*activity)
	// request is what happens to a request; nil if it is held, or an event.
	request func(point) faults.Action
}

// kinds are all that can go wrong. The order is that of the runs of a point.
var kinds = []*kind{conflict, refused, lost, restart, late}

var (
	// conflict has no effect.
	conflict = &kind{
		name: "conflict", met: (*activity).expect,
		at: func(p point) bool { return p.writes() && p.verb != "create" && p.verb != "deletecollection" },
		request: func(p point) faults.Action {
			return faults.Respond(apierrors.NewConflict(schema.GroupResource{Group: p.group, Resource: p.resource}, p.name, errors.New("a fault of the campaign")))
		},
	}
	// refused has no effect either, for what cannot be in conflict.
	refused = &kind{
		name: "error", met: (*activity).expect,
		at: func(p point) bool { return !p.event() && !conflict.at(p) },
		request: func(point) faults.Action {
			return faults.Respond(apierrors.NewInternalError(errors.New("a fault of the campaign")))
		},
	}
	// lost took effect, and the controller does not know.
	lost = &kind{
		name: "lost answer", met: (*activity).expect,
		at:      point.writes,
		request: func(point) faults.Action { return faults.DropAnswer() },
	}
	// restart ends the controller when its write has taken effect, or before it sees an event, and starts it again. It never gets
	// the answer or the event.
	restart = &kind{
		name: "restart", met: (*activity).goDown,
		at: func(p point) bool { return p.writes() || p.event() },
	}
	// late keeps an event back, and those behind it, until the controller has settled or asked some more. So its cache is stale.
	late = &kind{
		name: "stale cache", met: func(*activity) {},
		at: point.event,
	}
)

// faultsAt returns all that can go wrong at some points.
func faultsAt(points []point) (all []*fault) {
	for _, p := range points {
		for _, k := range kinds {
			if k.at(p) {
				all = append(all, &fault{k, p})
			}
		}
	}
	return all
}

// arrange lets the fault of a run happen, if it has one, and traces its points. It returns what holds back an event or an answer.
func arrange(injector *faults.Injector, t *trace) (*faults.Hold, error) {
	requests := faults.Rule{User: controllerUser, When: t.meet}
	events := requests
	events.Verb = "watch"
	held, err := injector.Hold(events)
	if err != nil {
		return nil, err
	}
	beside := faults.Rule{User: "system:kube-controller-manager", When: func(faults.Held) bool { t.activity.saw(); return false }}
	if _, err = injector.Inject(beside, faults.DropRequest()); err != nil { // sees Options.Controllers at work, and means none
		return nil, err
	}
	switch f := t.fault; {
	case f == nil || f.point.event():
		_, err = injector.Inject(requests, faults.DropRequest()) // likewise
	case f.kind == restart:
		held, err = injector.HoldAnswers(requests)
	default:
		_, err = injector.Inject(requests, f.kind.request(f.point))
	}
	return held, err
}
