// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// Change is an event that an informer has received, without its objects.
type Change struct {
	// Type is watch.Added, watch.Modified or watch.Deleted.
	Type watch.EventType
	Key  client.ObjectKey
	// Revision is the resourceVersion of the write, or zero if it is not known.
	Revision uint64
	// Merged says that the change stands for all that happened to the object between two states,
	// because the informer has listed again, or because the events came faster than they were taken.
	Merged bool
}

// Follow calls see for each event from now on, in the goroutine of the caller, until ctx ends or the
// informer is removed. It makes no object, so it costs next to nothing beside what the informer does
// anyway. It returns the cause of the end, and at once an error if the informer is one that the user
// made.
func (e *MapEntry) Follow(ctx context.Context, see func(Change)) error {
	own := e.ours()
	if own == nil {
		return fmt.Errorf("cannot follow the informer of %s: it is a %T that the option NewInformer made", e, e.Informer)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(e.ctx, func() { cancel(errRemoved) })
	defer stop()
	return own.Follow(ctx, func(n informer.Note) {
		namespace, name := object.SplitKey(n.Key)
		see(Change{
			Type: changeTypes[n.Type], Key: client.ObjectKey{Namespace: namespace, Name: name},
			Revision: n.Revision, Merged: n.Merged,
		})
	})
}

var changeTypes = map[watchcache.EventType]watch.EventType{
	watchcache.Added: watch.Added, watchcache.Updated: watch.Modified, watchcache.Deleted: watch.Deleted,
}
