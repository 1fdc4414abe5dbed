// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
)

// notes tells a cache what the requests of a client have written.
type notes struct {
	client  client.Client
	noter   note.Noter
	decoder runtime.Decoder // into the types of the scheme, from both encodings
}

func newNotes(c client.Client, noter note.Noter) *notes {
	return &notes{client: c, noter: noter, decoder: serializer.NewCodecFactory(c.Scheme()).UniversalDeserializer()}
}

// target is the object that a request writes.
type target struct {
	gvk schema.GroupVersionKind
	key client.ObjectKey
}

func (n *notes) target(obj client.Object) (target, error) {
	gvk, err := n.client.GroupVersionKindFor(obj)
	return target{storedAs(gvk), client.ObjectKeyFromObject(obj)}, err
}

// targetOf returns what an apply configuration is for. It is refused if it is an object that the cache has kept in part.
func targetOf(configuration runtime.ApplyConfiguration) (_ target, refused, err error) {
	named := metav1.PartialObjectMetadata{}
	raw, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(raw, &named)
	}
	return target{storedAs(named.GroupVersionKind()), client.ObjectKeyFromObject(&named)}, refusal("apply", &named), err
}

// begin begins an exchange, of which the follower in the context is told.
func (n *notes) begin(ctx context.Context) *exchange {
	x := &exchange{follower: note.FollowerOf(ctx, n.noter)}
	if x.follower != nil {
		x.follower.WillWrite()
	}
	return x
}

// write does a request that writes obj, and notes what came of it.
func (n *notes) write(ctx context.Context, obj client.Object, do func(context.Context) error) error {
	x := n.begin(ctx)
	generated := obj != nil && obj.GetName() == "" // the response is read into obj
	err := do(x.in(ctx))
	n.wrote(x, func() (target, error) { return n.target(obj) })
	if generated && x.unknown && x.answered() { // a request before the last one may have created another object
		if to, err := n.target(obj); err == nil {
			to.key.Name = ""
			n.unknown(to)
		}
	}
	return err
}

// apply is write for an apply configuration.
func (n *notes) apply(ctx context.Context, configuration runtime.ApplyConfiguration, do func(context.Context) error) error {
	if configuration == nil {
		return do(ctx) // which says what is wrong
	}
	to, refused, unnamed := targetOf(configuration) // before the response is read into it
	if refused != nil {
		return refused
	}
	x := n.begin(ctx)
	err := do(x.in(ctx))
	n.wrote(x, func() (target, error) { return to, unnamed })
	return err
}

// wrote notes an object that was created or changed, itself or by a subresource.
func (n *notes) wrote(x *exchange, of func() (target, error)) {
	if x.dryRun || !x.answered() && !x.ambiguous() {
		return
	}
	to, err := of()
	if err != nil {
		return
	}
	if !x.answered() {
		n.unknown(to)
		return
	}
	r, err := readResponse(x.body.Bytes())
	if err != nil {
		n.unknown(to)
		return
	}
	n.stored(to, r, x)
}

// unknown notes that a write may have happened. If the server has chosen the name, it may be any object of the
// namespace.
func (n *notes) unknown(to target) {
	if to.gvk.Empty() {
		return // the server keeps none
	}
	n.noter.NoteWrite(note.Write{Kind: to.gvk, Key: to.key, Outcome: note.Ambiguous})
}

// stored notes the response to a write of an object that is there now.
func (n *notes) stored(to target, r *response, x *exchange) {
	if to.gvk.Empty() || r.gvk.Kind == "Status" { // of an eviction or a binding: it says nothing of the object
		n.unknown(to)
		return
	}
	m := &metav1.PartialObjectMetadata{}
	if err := r.into(m); err != nil {
		n.unknown(to)
		return
	}
	revision, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return // of an aggregated API, or of an object that is not kept: no watch is behind it
	}
	w := note.Write{Kind: to.gvk, Key: to.key, Outcome: note.Ambiguous, Revision: revision, UID: m.UID}
	if r.gvk == to.gvk || r.partial() {
		if m.DeletionTimestamp != nil && !waits(to.gvk, m, r) {
			// The write has taken the last thing for which the deleted object waited. A server answers
			// with the object as it was to be stored, at the version of before.
			n.gone(target{to.gvk, client.ObjectKeyFromObject(m)}, m.UID, m.ResourceVersion)
			return
		}
		w.Key, w.Outcome, w.Metadata = client.ObjectKeyFromObject(m), note.Shown, m
		w.Bytes = len(r.body)
		w.Object = func(example runtime.Object) (client.Object, error) { return r.object(to.gvk, example, n.decoder) }
		if x.follower != nil {
			followed := w
			followed.Replaced = x.replaced()
			x.follower.NoteWrite(followed)
		}
	}
	n.noter.NoteWrite(w)
}

// delete does a request that deletes obj, and notes what came of it.
func (n *notes) delete(ctx context.Context, obj client.Object, do func(context.Context) error) error {
	x := &exchange{}
	err := do(x.in(ctx))
	if to, unknown := n.target(obj); unknown == nil {
		switch {
		case x.answered():
			n.deleted(to, obj, x)
		case x.ambiguous():
			n.unknown(to)
		}
	}
	return err
}

// deleted notes the response to a deletion. Most servers answer with a Status when the object is
// gone, and with the object when it waits for something. Some kinds are answered with the object also
// when they are gone.
func (n *notes) deleted(to target, obj client.Object, x *exchange) {
	r, err := readResponse(x.body.Bytes())
	if err != nil {
		n.unknown(to)
		return
	}
	if r.gvk.Kind != "Status" {
		m := &metav1.PartialObjectMetadata{}
		if err := r.into(m); err != nil {
			n.unknown(to)
		} else if waits(to.gvk, m, r) {
			n.stored(to, r, x)
		} else {
			n.gone(to, m.UID, m.ResourceVersion)
		}
		return
	}
	status := metav1.Status{}
	if err := r.into(&status); err != nil {
		n.unknown(to)
		return
	}
	uid := obj.GetUID()
	if status.Details != nil && status.Details.UID != "" {
		uid = status.Details.UID
	}
	was := ""
	if uid == obj.GetUID() {
		was = obj.GetResourceVersion()
	}
	n.gone(to, uid, was)
}

// waits reports whether an object stays after its deletion, until its finalizers or its period of grace have
// ended. r is the answer to the deletion.
func waits(gvk schema.GroupVersionKind, m *metav1.PartialObjectMetadata, r *response) bool {
	return m.DeletionTimestamp != nil &&
		(len(m.Finalizers) > 0 || ptr.Deref(m.DeletionGracePeriodSeconds, 0) > 0 || gvk.GroupKind() == namespaces && r.hasFinalizers())
}

// namespaces have finalizers in their specification too, and end with these.
var namespaces = schema.GroupKind{Kind: "Namespace"}

// hasFinalizers reports whether the specification of a Namespace has finalizers, as far as the response says.
func (r *response) hasFinalizers() bool {
	found := corev1.Namespace{}
	return r.partial() || r.into(&found) != nil || len(found.Spec.Finalizers) > 0
}

// gone notes that the object with uid is gone. Its last known resource version may be empty.
func (n *notes) gone(to target, uid types.UID, was string) {
	if uid == "" {
		n.unknown(to)
		return
	}
	revision, err := strconv.ParseUint(was, 10, 64)
	if err != nil && was != "" {
		return // of an aggregated API
	}
	n.noter.NoteWrite(note.Write{Kind: to.gvk, Key: to.key, Outcome: note.Gone, UID: uid, Revision: revision})
}

// deleteAllOf does a request that deletes a collection, and notes the objects of the response: they
// are as they were before. If there is no such response, any object of the namespace may be gone, also
// after an error: a server deletes one object after another until one of them is refused.
func (n *notes) deleteAllOf(ctx context.Context, obj client.Object, o *client.DeleteAllOfOptions, do func(context.Context) error) error {
	x := &exchange{}
	err := do(x.in(ctx))
	gvk, unknown := n.client.GroupVersionKindFor(obj)
	if unknown != nil || !x.answered() && !x.ambiguous() && !x.partly() {
		return err
	}
	deleted, known := deletedOf(x)
	if !known {
		n.noter.NoteWrite(note.Write{Kind: gvk, Key: client.ObjectKey{Namespace: o.Namespace}, Outcome: note.Ambiguous})
		return err
	}
	for i := range deleted { // they may wait for something, or have changed before they were deleted
		m := &deleted[i]
		n.noter.NoteWrite(note.Write{Kind: gvk, Key: client.ObjectKeyFromObject(m), Outcome: note.Ambiguous, Metadata: m})
	}
	return err
}

// deletedOf returns the objects in the response to the deletion of a collection, if it has them all. It lacks
// some if an earlier request of the same call has deleted them.
func deletedOf(x *exchange) (deleted []metav1.PartialObjectMetadata, known bool) {
	if !x.answered() || x.unknown {
		return nil, false
	}
	r, err := readResponse(x.body.Bytes())
	if err != nil || r.gvk.Kind == "Status" {
		return nil, false
	}
	list := metav1.PartialObjectMetadataList{}
	err = r.into(&list)
	return list.Items, err == nil
}
