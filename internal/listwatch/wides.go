// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/cover"
)

// Wides are the wide watches of the kinds of a cache. They are safe for concurrent use.
type Wides struct {
	client     *http.Client
	options    wideOptions // but for what is of a kind
	mu         sync.Mutex  // guards what follows
	namespaces Source      // nil before somebody has asked for it
	byKey      map[any]*wideWatch
}

// NewWides returns the wide watches of a cache. They make their requests with client, and run in run, see wideOptions.
func NewWides(client *http.Client, run func(func(context.Context)) bool, logger logr.Logger) *Wides {
	return &Wides{client: client, options: wideOptions{Run: run, Logger: logger}, byKey: map[any]*wideWatch{}}
}

// Source returns the source of a target with a namespace, which is a member of the wide watch of the targets with that key. These differ in
// nothing but their namespaces and clients. Make makes a source by itself. Silence is that of wideOptions.
func (w *Wides) Source(key any, t Target, silence time.Duration, make func(Target) (Source, error)) (Source, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[key] == nil {
		all := t
		all.Namespace, all.HTTPClient = "", w.client
		source, err := make(all)
		if err != nil {
			return nil, err
		}
		part := func(namespace string, client *http.Client) (Source, error) {
			one := t
			one.Namespace, one.HTTPClient = namespace, client
			return make(one)
		}
		if w.namespaces == nil {
			all.Kind, all.Resource, all.Rule = corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithResource("namespaces"), nil
			if w.namespaces, err = Unstructured(all); err != nil {
				return nil, err
			}
		}
		options := w.options
		options.Source, options.Part, options.Survey, options.Silence = source, part, w.survey, silence
		options.Logger = options.Logger.WithValues("kind", t.Kind.String())
		w.byKey[key] = newWideWatch(options)
	}
	return w.byKey[key].in(t.Namespace, t.HTTPClient), nil
}

// survey asks the server for the namespaces that there are, see wideOptions. It lists whole Namespaces, because a list of metadata does not
// say whether the server has selected it.
func (w *Wides) survey(ctx context.Context) (namespaces int, selects bool, err error) {
	namespaces, selects, err = w.count(ctx, cover.Everything)
	if err == nil && selects { // then it has counted the first page alone
		namespaces, _, err = w.count(ctx, "")
	}
	return namespaces, selects, err
}

// count lists a page of namespaces. It returns how many there are, and whether the server says that it has selected them.
func (w *Wides) count(ctx context.Context, selector string) (namespaces int, selects bool, err error) {
	listed, err := w.namespaces.List(ctx, metav1.ListOptions{Limit: 1, ShardSelector: selector})
	if err != nil {
		return 0, false, err
	}
	list, ok := listed.(*unstructured.UnstructuredList)
	if !ok {
		return 0, false, fmt.Errorf("the list of namespaces is a %T", listed)
	}
	_, selects, _ = unstructured.NestedFieldNoCopy(list.Object, "metadata", "shardInfo")
	return len(list.Items) + int(ptr.Deref(list.GetRemainingItemCount(), 0)), selects, nil
}
