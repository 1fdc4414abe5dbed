// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/informers"
)

const (
	// maxKinds is the number of kinds in an answer, and maxRows that of the namespaces of a kind, of its handlers and
	// of its indexes.
	maxKinds = 500
	maxRows  = 20
	// maxText bounds an error in an answer, in bytes.
	maxText = 2 << 10
	// maxPending is the number of own writes of a kind that are shown.
	maxPending = 100
)

// overview is the answer to api/v1/overview.
type overview struct {
	Cache   string    `json:"cache"`
	Program program   `json:"program"`
	Started bool      `json:"started"`
	Time    time.Time `json:"time"`
	// Phases says how many informers are in each phase, and Informers how many there are. An informer that
	// representations share counts once, here and in Total.
	Phases    map[inspected.Phase]int `json:"phases"`
	Informers int                     `json:"informers"`
	Total     figures                 `json:"total"`
	Kinds     []kindInfo              `json:"kinds"`
	MoreKinds int                     `json:"moreKinds,omitempty"`
	// Namespaces are those that come and go.
	Namespaces *inspected.Namespaces `json:"namespaces,omitempty"`
	// Over says which bounds in bytes are passed, although all that can be was evicted, and what to do.
	Over []string `json:"over,omitempty"`
}

// kindList is the answer to api/v1/kinds.
type kindList struct {
	Kinds []kindRef `json:"kinds"`
	More  int       `json:"more,omitempty"`
}

// kindRef names one kind in one representation.
type kindRef struct {
	Group          string `json:"group"`
	Version        string `json:"version"`
	Kind           string `json:"kind"`
	Representation string `json:"representation"`
	Resource       string `json:"resource"`
	// Path is where the kind is, behind api/v1/.
	Path string `json:"path"`
}

// kindInfo is what is shown of one kind in one representation, for all namespaces together.
type kindInfo struct {
	kindRef
	Scopes    int       `json:"scopes"`
	Namespace string    `json:"namespace,omitempty"` // if there is one scope, and it is a namespace
	State     stateInfo `json:"state"`               // the worst of all scopes
	// StartedBy is the call site of the first read that has started an informer of the kind; empty if the program has started all.
	StartedBy string `json:"startedBy,omitempty"`
	// Kept are the fields of the objects that are kept; empty for all.
	Kept string `json:"kept,omitempty"`
	// Leases is how many leases the informers serve.
	Leases int `json:"leases,omitempty"`
	// SharedWith are the representations that share one watch with this one: the figures are those of all.
	SharedWith []string `json:"sharedWith,omitempty"`
	// Slow are event handlers that have not returned for ten seconds or longer from an event, at most three.
	Slow []handlerInfo `json:"slowHandlers,omitempty"`
	figures
}

// stateInfo is where an informer is.
type stateInfo struct {
	Phase     inspected.Phase         `json:"phase"`
	Policy    informers.FailurePolicy `json:"policy"`
	Namespace string                  `json:"namespace,omitempty"`
	Cause     informers.Cause         `json:"cause,omitempty"`
	Message   string                  `json:"message,omitempty"`
	Object    string                  `json:"object,omitempty"` // that is concerned
	Since     *time.Time              `json:"since,omitempty"`
	Attempts  int                     `json:"attempts,omitempty"`
	// Manifest is the role that is missing.
	Manifest string `json:"manifest,omitempty"`
}

// kindDetail is the answer for one kind.
type kindDetail struct {
	kindInfo
	Time time.Time `json:"time"`
	// AllScopes are the informers from one on that the request names, the worst first, and MoreScopes how many follow.
	AllScopes    []scopeInfo   `json:"allScopes"`
	MoreScopes   int           `json:"moreScopes,omitempty"`
	Handlers     []handlerInfo `json:"handlerList"` // the slowest first
	MoreHandlers int           `json:"moreHandlers,omitempty"`
	Indexes      []indexInfo   `json:"indexList"` // the largest first
	MoreIndexes  int           `json:"moreIndexes,omitempty"`
	Pending      []pendingInfo `json:"pendingWrites"`
	// LeaseList are the scopes with the most leases, and the informers that serve them.
	LeaseList  []leaseInfo `json:"leaseList"`
	MoreLeases int         `json:"moreLeases,omitempty"`
	// MorePending is how many more there are. The watch may have shown some in this moment.
	MorePending int `json:"morePending,omitempty"`
}

// scopeInfo is one informer.
type scopeInfo struct {
	Namespace string    `json:"namespace"`         // empty is all
	Selects   string    `json:"selects,omitempty"` // what its selectors select; empty for all
	Leases    int       `json:"leases,omitempty"`  // that it serves
	State     stateInfo `json:"state"`
	StartedBy string    `json:"startedBy,omitempty"`
	figures
}

// pendingInfo is a write of the program that the watch has not shown.
type pendingInfo struct {
	Namespace       string  `json:"namespace"`
	Name            string  `json:"name"`
	Outcome         string  `json:"outcome"`
	ResourceVersion uint64  `json:"resourceVersion,omitempty"`
	AgeSeconds      float64 `json:"ageSeconds"`
}

// overview answers api/v1/overview.
func (h *handler) overview(*http.Request) (overview, error) {
	o := overview{Cache: h.cache.Name(), Program: h.program, Started: h.cache.Started(), Time: time.Now(), Phases: map[inspected.Phase]int{}, Kinds: []kindInfo{}}
	o.Namespaces = h.cache.Namespaces()
	leases := h.leases()
	for _, f := range h.byKind() {
		stats := f.stats()
		info, _, counted := h.describe(f, stats, leases)
		info.Slow = slowOf(handlersOf(stats))
		for _, s := range counted {
			o.Phases[s.State.Phase]++
			o.Informers++
			o.Total.add(s.figures)
		}
		o.Kinds = append(o.Kinds, info)
	}
	o.MoreKinds = cut(&o.Kinds, maxKinds)
	for _, bound := range h.cache.Bounds() {
		if bound.Over != "" {
			o.Over = append(o.Over, bound.Over)
		}
	}
	_ = cut(&o.Over, maxRows)
	return o, nil
}

// kinds answers api/v1/kinds.
func (h *handler) kinds(*http.Request) (kindList, error) {
	list := kindList{Kinds: []kindRef{}}
	for _, f := range h.byKind() {
		list.Kinds = append(list.Kinds, f.ref())
	}
	list.More = cut(&list.Kinds, maxKinds)
	return list, nil
}

// kind answers for one kind.
func (h *handler) kind(r *http.Request) (kindDetail, error) {
	f, err := h.find(r)
	if err != nil {
		return kindDetail{}, err
	}
	from := 0
	if text := r.URL.Query().Get("from"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return kindDetail{}, apierrors.NewBadRequest(fmt.Sprintf("from: %q is no number of a namespace", text))
		}
	}
	stats := f.stats()
	d := kindDetail{Time: time.Now(), Handlers: handlersOf(stats), Indexes: indexesOf(stats), Pending: []pendingInfo{}}
	d.kindInfo, d.AllScopes, _ = h.describe(f, stats, h.leases())
	d.LeaseList = h.leasesOf(f)
	d.Slow = slowOf(d.Handlers)
	d.AllScopes = d.AllScopes[min(from, len(d.AllScopes)):]
	d.MoreScopes, d.MoreHandlers, d.MoreIndexes = cut(&d.AllScopes, maxRows), cut(&d.Handlers, maxRows), cut(&d.Indexes, maxRows)
	d.MoreLeases = cut(&d.LeaseList, maxRows)
	writes := 0
	for i, entry := range f.entries {
		if store := stats[i].Reads.Store; store != nil {
			writes += store.OwnWrites
		}
		for _, p := range entry.Inspected().PendingWrites(maxPending - len(d.Pending)) {
			d.Pending = append(d.Pending, pendingInfo{p.Key.Namespace, p.Key.Name, p.Outcome, p.Revision, time.Since(p.Noted).Seconds()})
		}
	}
	if len(d.Pending) == maxPending {
		d.MorePending = max(0, writes-maxPending)
	}
	return d, nil
}

// cut shortens a list and returns how many elements that has cost.
func cut[T any](list *[]T, most int) (more int) {
	if more = len(*list) - most; more <= 0 {
		return 0
	}
	*list = (*list)[:most]
	return more
}

// byKind returns the informers by kind and representation, in their order.
func (h *handler) byKind() (all []found) {
	entries := h.cache.Informers()
	for len(entries) > 0 { // representations of a kind follow each other
		gvk, n := entries[0].Key().GroupVersionKind, 1
		for n < len(entries) && entries[n].Key().GroupVersionKind == gvk {
			n++
		}
		for of := entries[:n]; len(of) > 0; {
			f := foundIn(of[0].Key(), entries[:n])
			all, of = append(all, f), of[len(f.entries):]
		}
		entries = entries[n:]
	}
	return all
}

// shared returns which entries of a representation show the same as an entry of an earlier representation, and
// the names of all representations that show the same.
func shared(entries, others []inspected.Informer) (again []bool, names []string) {
	by := make(map[any][]informers.Representation, len(others))
	for _, other := range others {
		watch := other.Watch()
		by[watch] = append(by[watch], representations[other.Series().Representation])
	}
	with := map[informers.Representation]bool{}
	again = make([]bool, len(entries))
	for i, entry := range entries {
		for _, other := range by[entry.Watch()] {
			with[other] = true
			again[i] = again[i] || other < representations[entry.Series().Representation]
		}
	}
	for _, other := range slices.Sorted(maps.Keys(with)) {
		names = append(names, other.String())
	}
	return again, names
}

// inspectedOf returns what is shown of informers.
func inspectedOf(entries []*informers.MapEntry) []inspected.Informer {
	all := make([]inspected.Informer, len(entries))
	for i, entry := range entries {
		all[i] = entry.Inspected()
	}
	return all
}

func (f found) ref() kindRef {
	group := f.key.Group
	if group == "" {
		group = coreGroup
	}
	representation := f.key.Representation.String()
	return kindRef{
		Group: f.key.Group, Version: f.key.Version, Kind: f.key.Kind, Representation: representation,
		Resource: f.entries[0].Resource().GroupResource().String(),
		Path:     strings.Join([]string{"kinds", group, f.key.Version, f.key.Kind, representation}, "/"),
	}
}

// stats returns the figures of the informers, which take some time to tell.
func (f found) stats() []sample {
	all := make([]sample, len(f.entries))
	for i, entry := range f.entries {
		all[i] = sample{entry.Inspected().Sample(), entry.Namespace()}
	}
	return all
}

// describe returns a kind, its informers from the worst to the best, and those of them that no other representation counts.
func (h *handler) describe(f found, stats []sample, leases map[*informers.MapEntry]int) (info kindInfo, scopes, counted []scopeInfo) {
	info = kindInfo{kindRef: f.ref(), Scopes: len(f.entries)}
	again, names := shared(inspectedOf(f.entries), inspectedOf(f.others))
	info.SharedWith = names
	for i, entry := range f.entries {
		s := scopeInfo{
			Namespace: entry.Namespace(), Selects: entry.Inspected().Selects(), Leases: leases[entry],
			State: h.stateOf(entry), StartedBy: entry.StartedBy(), figures: figuresOf(entry, &stats[i]),
		}
		scopes = append(scopes, s)
		if !again[i] {
			counted = append(counted, s)
		}
		info.figures.add(s.figures)
		info.Leases += s.Leases
		info.StartedBy = cmp.Or(info.StartedBy, s.StartedBy)
		info.Kept = entry.Inspected().Kept()
	}
	slices.SortStableFunc(scopes, func(a, b scopeInfo) int { return rank(a.State.Phase) - rank(b.State.Phase) })
	info.State = scopes[0].State
	if len(scopes) == 1 {
		info.Namespace = scopes[0].Namespace
		info.ResourceVersion = scopes[0].ResourceVersion
	}
	return info, scopes, counted
}

// rank orders phases from the worst to the best.
func rank(p inspected.Phase) int { return slices.Index(inspected.Phases, p) }

// stateOf returns where an informer is.
func (h *handler) stateOf(entry *informers.MapEntry) stateInfo {
	is := entry.Inspected().State()
	if is.Phase != inspected.Dormant && !h.cache.Started() {
		return stateInfo{Phase: inspected.Waiting, Policy: entry.Policy(), Namespace: entry.Namespace()}
	}
	s := stateInfo{Phase: is.Phase, Policy: entry.Policy(), Namespace: entry.Namespace(), Cause: informers.Cause(is.Cause)}
	if is.Err == nil {
		return s
	}
	s.Message = is.Err.Error()
	if reason := (*informers.NotSyncedError)(nil); errors.As(is.Err, &reason) {
		s.Attempts, s.Manifest = reason.Attempts, reason.Manifest()
		if reason.Object.Name != "" {
			s.Object = reason.Object.String()
		}
		if !reason.Since.IsZero() {
			s.Since = &reason.Since
		}
	}
	if s.Cause != "" && h.hides(entry.Key()) && mayQuote(s.Cause) {
		s.Message = "the text is not shown, because it may hold values of Secrets: the log has it"
	}
	s.Message = shortened(s.Message)
	return s
}

// shortened returns a text within a bound.
func shortened(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + " …"
	}
	return text
}

// mayQuote reports whether an error of that cause may hold parts of an object. It may, unless the
// cause is known to be on the way to the API server, or in its answer to the request.
func mayQuote(c informers.Cause) bool {
	switch c {
	case informers.Listing, informers.Forbidden, informers.Unauthorized, informers.NotServed, informers.NotWatchable, informers.TooManyRequests, informers.Unavailable,
		informers.ConnectionRefused, informers.TLS, informers.Timeout:
		return false
	}
	return true
}
