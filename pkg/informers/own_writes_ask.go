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
	"github.com/tarn-dev/tarn/internal/ownwrites"
)

type answered = ownwrites.Answer[object.Object]

// ask asks the server for the object under a key, as the informer lists it. It is a list, because a
// list has a resource version also if there is no object. If the key is empty, ask asks for the resource
// version alone.
func (w *ownWrites) ask(ctx context.Context, key string) (answer answered, err error) {
	namespace, name := object.SplitKey(key)
	opts := w.options()
	if key == "" {
		opts.LabelSelector, opts.Limit = "", 1 // so that the server need not look for an object that matches
	} else {
		only := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
		if w.selector.Field != nil {
			only = fields.AndSelectors(w.selector.Field, only)
		}
		opts.FieldSelector = only.String()
	}
	answer.Revision, _, err = w.request(ctx, namespace, opts, func(found answered) {
		if found.Item.Key == key {
			answer = found
		}
	})
	return answer, err
}

const (
	// askPage is how many objects a page has, so that an answer takes little memory.
	askPage = 500
	// askFor is how long a request may take. A list takes as long as its pages do.
	askFor = 10 * time.Second
)

var errNoAnswer = fmt.Errorf("there was no answer within %v", askFor)

// list asks the server for the objects with a prefix, as the informer lists them.
func (w *ownWrites) list(ctx context.Context, prefix string, each func(answered)) (revision uint64, err error) {
	namespace, _ := object.SplitKey(prefix)
	opts := w.options()
	opts.Limit = askPage
	for {
		revision, opts.Continue, err = w.request(ctx, namespace, opts, each)
		if err != nil || opts.Continue == "" {
			return revision, err // the pages of a list have one version
		}
	}
}

// options returns the options with which the informer lists.
func (w *ownWrites) options() (opts metav1.ListOptions) {
	if w.selector.Label != nil {
		opts.LabelSelector = w.selector.Label.String()
	}
	if w.selector.Field != nil {
		opts.FieldSelector = w.selector.Field.String()
	}
	return opts
}

// request lists objects of a namespace, and returns the version of the list and the token of the next
// page.
func (w *ownWrites) request(ctx context.Context, namespace string, opts metav1.ListOptions, each func(answered)) (revision uint64, next string, err error) {
	source, err := w.source(namespace)
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askFor, errNoAnswer)
	defer cancel()
	list, err := source.List(ctx, opts)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return 0, "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return 0, "", err
	}
	if revision, err = strconv.ParseUint(m.GetResourceVersion(), 10, 64); err != nil || revision == 0 {
		return 0, "", fmt.Errorf("%w: %q", ownwrites.ErrNoRevision, m.GetResourceVersion())
	}
	err = contain.Call("the transform of "+w.kind, func() error {
		return meta.EachListItem(list, func(obj runtime.Object) error {
			each(w.answer(obj, revision))
			return nil
		})
	})
	return revision, m.GetContinue(), err
}

// answer returns what the informer makes of an object of a list.
func (w *ownWrites) answer(obj runtime.Object, revision uint64) answered {
	kept, err := w.informer.Keep(obj)
	if err == nil {
		return answered{Found: true, Item: kept, Revision: revision}
	}
	a := answered{Lost: w.lacks(err), Revision: revision}
	if m, unknown := meta.Accessor(obj); unknown == nil {
		a.Item.Key, a.UID = object.Key(m.GetNamespace(), m.GetName()), m.GetUID()
		a.Item.Revision, _ = strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	}
	return a
}
