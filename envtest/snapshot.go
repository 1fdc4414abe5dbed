// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

// Keep says what Reset leaves as it is: it returns true for an object that stays, which it is given by its resource and name.
// The namespace of an object that stays, and its CustomResourceDefinition, stay too. It must not call the server, which waits with
// all writes until it has returned for each object.
type Keep func(resource schema.GroupResource, name types.NamespacedName) bool

// KeepCRDs keeps all CustomResourceDefinitions, but none of their objects.
func KeepCRDs() Keep { return KeepResources(crdResource) }

// KeepResources keeps all objects of some resources.
func KeepResources(resources ...schema.GroupResource) Keep {
	return func(resource schema.GroupResource, _ types.NamespacedName) bool {
		return slices.Contains(resources, resource)
	}
}

// KeepNamespaces keeps namespaces with all that is in them.
func KeepNamespaces(names ...string) Keep {
	return func(resource schema.GroupResource, name types.NamespacedName) bool {
		if resource == corev1.Resource("namespaces") {
			return slices.Contains(names, name.Name)
		}
		return slices.Contains(names, name.Namespace)
	}
}

// Reset deletes everything but what there was when Start returned, which includes the CRDs of the options, and what one of
// keep wants to stay. What Start made and somebody changed or deleted since is as before. So suites can share one environment,
// and begin each spec with a clean slate.
//
// Reset works as Restore does.
func (e *Environment) Reset(ctx context.Context, keep ...Keep) error {
	r, err := e.parts()
	if err != nil {
		return fmt.Errorf("reset the environment: %w", err)
	}
	if err := r.server.restore(ctx, nil, keep); err != nil {
		return fmt.Errorf("reset the environment: %w", err)
	}
	return nil
}

// Snapshot is what an environment stored at one moment: all objects, as etcd has them. It never changes, can be restored any
// number of times, and belongs to its holder: the environment keeps no reference to it. It may be used from several
// goroutines.
type Snapshot struct {
	origin  *origin
	entries []etcd.Entry // sorted by key
	bytes   int64
}

// origin is whose snapshots are: each server has one of its own. A snapshot outlives its server, and must not keep it in memory.
type origin struct{ _ byte } // a type without a size would not have addresses of its own

// Len returns how many objects the snapshot has.
func (s *Snapshot) Len() int { return len(s.entries) }

// Bytes returns how much memory its objects take, encoded as etcd has them.
func (s *Snapshot) Bytes() int64 { return s.bytes }

// Snapshot returns all that is stored at this moment. It takes as much memory as the encoded objects; see Snapshot.Bytes.
func (e *Environment) Snapshot(ctx context.Context) (*Snapshot, error) {
	r, err := e.parts()
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	s, err := r.server.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return s, nil
}

// Restore brings back all objects of a snapshot of this environment, and deletes all others, in one step. It writes only what
// differs, in the storage itself: neither finalizers nor admission stop it, UIDs and times are as they were, and every watch
// sees what changes. Resource versions go on, so that informers stay right. An object that was deleted and made again since
// is deleted and added, and never modified, because it has another UID. Events expire after the time that they had left.
//
// When Restore returns, the server answers by the new state alone: roles, namespaces, webhooks, policies and CRDs that are
// gone have no effect any more, and their discovery documents are gone. What informers of clients know comes with their watches.
//
// Requests that write and arrive meanwhile wait until Restore is done. Those that were under way are either done before, and
// undone, or refused with 429 and Retry-After, which client-go repeats. So nothing is stored in a namespace that is gone.
// Managers may run on. What a controller writes for an owner that it has not yet seen removed is refused with a conflict; for what
// it writes without an owner reference, see AwaitCache. Users of AddUser keep their credentials. APIServices of the server itself
// follow its CRDs, and are not restored.
//
// If ctx ends early, either nothing has happened or the state is restored and parts of the server may not know yet; the error
// says which.
func (e *Environment) Restore(ctx context.Context, s *Snapshot) error {
	r, err := e.parts()
	if err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	if s == nil || s.origin != r.server.origin() {
		return fmt.Errorf("restore a snapshot: %w", ErrForeignSnapshot)
	}
	if err := r.server.restore(ctx, s, nil); err != nil {
		return fmt.Errorf("restore a snapshot: %w", err)
	}
	return nil
}

// origin is that of the server's snapshots, nil if it cannot make any.
func (s *server) origin() *origin {
	if s.contents == nil {
		return nil
	}
	return s.contents.snapshots
}

// snapshot reads everything.
func (s *server) snapshot(ctx context.Context) (*Snapshot, error) {
	ctx, leave, err := s.enterRestore(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	made := &Snapshot{origin: s.origin()}
	for entry, err := range s.contents.etcd.Read(ctx, registryPrefix+"/") {
		if err != nil {
			return nil, because(ctx, err)
		}
		if follows(entry) {
			continue
		}
		made.entries = append(made.entries, entry)
		made.bytes += int64(len(entry.Key) + len(entry.Value))
	}
	made.entries = slices.Clip(made.entries)
	return made, nil
}

// enterRestore lets one caller at a time work on the whole state. The context also ends when the server stops, which waits for
// the caller to leave.
func (s *server) enterRestore(ctx context.Context) (context.Context, func(), error) {
	if s.contents == nil {
		return nil, nil, ErrSharedState
	}
	if !s.contents.users.enter() {
		return nil, nil, ErrNotRunning
	}
	ctx, end := s.whileRunning(ctx)
	select {
	case s.contents.turn <- struct{}{}:
		return ctx, func() {
			<-s.contents.turn
			end()
			s.contents.users.leave()
		}, nil
	case <-ctx.Done():
		defer s.contents.users.leave()
		defer end()
		return nil, nil, context.Cause(ctx)
	}
}

// restore makes the state that of the snapshot, but for what keep wants to stay. Without one it makes it as it was at the start.
func (s *server) restore(ctx context.Context, target *Snapshot, keep []Keep) error {
	ctx, leave, err := s.enterRestore(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if target == nil {
		target = s.contents.initial
	}
	open := s.contents.gate.close()
	defer open()
	p := &plan{server: s, target: target, keep: keep}
	writes, err := s.contents.etcd.Exchange(ctx, registryPrefix+"/", p.make)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", because(ctx, err))
	}
	s.contents.removed.replaced(p.owners())
	if err := s.follow(ctx, p, writes); err != nil {
		return fmt.Errorf("the objects are restored, but the server may still act on what was before: %w", because(ctx, err))
	}
	return nil
}

// because adds to an error why the context has ended, if it has.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// plan is how the state becomes that of a snapshot.
type plan struct {
	server *server
	target *Snapshot
	keep   []Keep

	kept  map[string]bool      // keys of namespaces and CRDs that stay because of something of theirs
	uids  map[string]types.UID // of what goes, by key
	there map[string]bool      // keys of what is replaced
	goes  []etcd.Write         // deletions
	come  []etcd.Write         // of what is missing or different
	crds  []crdChange
}

// crdChange is a CustomResourceDefinition that is written. One that is not there is empty.
type crdChange struct {
	before, after *apiextensionsv1.CustomResourceDefinition
	stores        int // of its resource that had been made before
}

// make returns the writes: what is in namespaces and of CRDs goes before these, and comes after them.
func (p *plan) make(current iter.Seq2[etcd.Entry, error]) ([]etcd.Write, error) {
	p.kept, p.there, p.uids = map[string]bool{}, map[string]bool{}, map[string]types.UID{}
	left := p.target.entries // with keys that are not smaller than the current one
	before := map[string][]byte{}
	for entry, err := range current {
		if err != nil {
			return nil, err
		}
		for len(left) > 0 && left[0].Key < entry.Key {
			p.put(left[0])
			left = left[1:]
		}
		var wanted *etcd.Entry
		if len(left) > 0 && left[0].Key == entry.Key {
			wanted, left = &left[0], left[1:]
		}
		if p.change(entry, wanted) && strings.HasPrefix(entry.Key, crdPrefix) {
			before[entry.Key] = entry.Value
		}
	}
	for _, missing := range left {
		p.put(missing)
	}
	p.goes = slices.DeleteFunc(p.goes, func(w etcd.Write) bool { return p.kept[w.Key] })
	p.come = slices.DeleteFunc(p.come, func(w etcd.Write) bool { return p.kept[w.Key] && p.there[w.Key] })
	if err := p.noteCRDs(before); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.goes, func(a, b etcd.Write) int { return rank(a.Key) - rank(b.Key) })
	slices.SortStableFunc(p.come, func(a, b etcd.Write) int { return rank(b.Key) - rank(a.Key) })
	return append(p.goes, p.come...), nil
}

// change plans what happens to an object that is there, and reports whether something does.
func (p *plan) change(current etcd.Entry, wanted *etcd.Entry) bool {
	switch {
	case follows(current):
		return false
	case p.keeps(current.Key):
		return false
	case wanted == nil:
		p.remove(current.Key, metadataOf(current.Value).UID)
		return true
	case string(current.Value) == string(wanted.Value):
		return false
	}
	p.there[current.Key] = true
	if uid := metadataOf(current.Value).UID; uid != metadataOf(wanted.Value).UID {
		p.remove(current.Key, uid)
	}
	p.put(*wanted)
	return true
}

func (p *plan) remove(key string, uid types.UID) {
	p.goes = append(p.goes, etcd.Write{Entry: etcd.Entry{Key: key}})
	p.uids[key] = uid
}

func (p *plan) put(wanted etcd.Entry) { p.come = append(p.come, etcd.Write{Entry: wanted}) }

// owners returns which objects go and which come.
func (p *plan) owners() (gone, come []types.UID) {
	for _, w := range p.goes {
		gone = append(gone, p.uids[w.Key])
	}
	for _, w := range p.come {
		come = append(come, metadataOf(w.Value).UID)
	}
	return gone, come
}

// keeps reports whether an object stays as it is, and notes that its namespace and its CRD do.
func (p *plan) keeps(key string) bool {
	if len(p.keep) == 0 {
		return false
	}
	at := p.server.contents.locate(key)
	if !slices.ContainsFunc(p.keep, func(keep Keep) bool { return keep(at.resource, at.name) }) {
		return false
	}
	if at.name.Namespace != "" {
		p.kept[namespacePrefix+at.name.Namespace] = true
	}
	if at.custom {
		p.kept[crdPrefix+at.resource.String()] = true
	}
	return true
}

// noteCRDs notes what happens to CRDs.
func (p *plan) noteCRDs(before map[string][]byte) error {
	after := map[string][]byte{}
	for _, w := range slices.Concat(p.goes, p.come) { // in this order: one that is replaced is in both
		if strings.HasPrefix(w.Key, crdPrefix) {
			after[w.Key] = w.Value
		}
	}
	for key, value := range after {
		c := crdChange{before: &apiextensionsv1.CustomResourceDefinition{}, after: &apiextensionsv1.CustomResourceDefinition{}}
		if err := errors.Join(decodeCRD(before[key], c.before), decodeCRD(value, c.after)); err != nil {
			return fmt.Errorf("decode what is stored as %s: %w", key, err)
		}
		if c.after.Spec.Group != "" {
			c.stores = p.server.custom.count(schema.GroupResource{Group: c.after.Spec.Group, Resource: c.after.Spec.Names.Plural})
		}
		p.crds = append(p.crds, c)
	}
	return nil
}

// decodeCRD decodes a stored definition, if there is one.
func decodeCRD(data []byte, into *apiextensionsv1.CustomResourceDefinition) error {
	if data == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}
