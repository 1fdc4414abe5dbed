// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/contain"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/pending"
)

type pendingAnswer = pending.Answer[object.Object]

const (
	// askPage is how many objects a page has, so that an answer takes little memory.
	askPage = 500
	// askFor is how long a request may take. A list takes as long as its pages do.
	askFor = 10 * time.Second
)

var errNoAnswer = fmt.Errorf("there was no answer within %v", askFor)

// ask asks the server for the objects of a target, as the informer lists them. It is a list also for one key, because
// a list has a resource version also if there is no object. For the zero target it asks for the resource version alone.
func (w *pendingWrites) ask(ctx context.Context, of pending.Target) (a pendingAnswer, err error) {
	opts := metav1.ListOptions{Limit: askPage}
	selector := w.selector()
	only := selector.Field
	switch {
	case of == pending.Target{}:
		opts.Limit = 1
	case !of.All:
		_, name := object.SplitKey(of.Key)
		if only = fields.OneTermEqualSelector(metav1.ObjectNameField, name); selector.Field != nil {
			only = fields.AndSelectors(selector.Field, only)
		}
	}
	if only != nil {
		opts.FieldSelector = only.String()
	}
	if selector.Label != nil {
		opts.LabelSelector = selector.Label.String()
	}
	for {
		opts.Continue, err = w.request(ctx, of, opts, &a)
		if err != nil || opts.Continue == "" || opts.Limit == 1 {
			return a, err // the pages of a list have one version
		}
	}
}

// request adds a page of the objects of a target to an answer, and returns the token of the next page.
func (w *pendingWrites) request(ctx context.Context, of pending.Target, opts metav1.ListOptions, a *pendingAnswer) (next string, err error) {
	scoped := *w.options
	if scoped.Namespace == "" {
		scoped.Namespace, _ = object.SplitKey(of.Key)
	}
	source, err := newSource(&scoped, w.options.HTTPClient, w.entry.key, w.entry.scope.mapping())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askFor, errNoAnswer)
	defer cancel()
	list, err := source.List(ctx, opts)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	if a.Revision, err = strconv.ParseUint(m.GetResourceVersion(), 10, 64); err != nil || a.Revision == 0 {
		return "", fmt.Errorf("%w: %q", pending.ErrNoRevision, m.GetResourceVersion())
	}
	err = contain.Call("the transform of "+w.entry.String(), func() error {
		return meta.EachListItem(list, func(obj runtime.Object) error {
			w.add(obj, of, a)
			return nil
		})
	})
	return m.GetContinue(), err
}

// add adds what the informer makes of an object of a list to an answer, if the answer is about it.
func (w *pendingWrites) add(obj runtime.Object, of pending.Target, a *pendingAnswer) {
	m, err := meta.Accessor(obj)
	if err != nil || !of.Has(object.Key(m.GetNamespace(), m.GetName())) {
		return
	}
	key, uid := object.Key(m.GetNamespace(), m.GetName()), m.GetUID()
	revision, _ := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	engine := w.informer.Engine()
	if same, there := engine.Get(key); there && same.Revision == revision && engine.Revision() <= a.Revision {
		a.Items = append(a.Items, same) // it need not be made, nor kept, once more
		return
	}
	kept, err := w.informer.Keep(obj)
	if err != nil {
		a.Lost = append(a.Lost, pending.Lost{Key: key, UID: uid, Err: w.lacks(err)})
		return
	}
	a.Items = append(a.Items, kept)
}
