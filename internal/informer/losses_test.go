// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestALossOfABrokenListIsNone has a transform refuse an object of a streaming list that breaks. The object is not in what follows.
func TestALossOfABrokenListIsNone(t *testing.T) {
	complete := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	for name, next := range map[string]func(w *watch.RaceFreeFakeWatcher, i *Informer) error{
		"the next streaming list": func(w *watch.RaceFreeFakeWatcher, _ *Informer) error {
			w.Action(watch.Bookmark, complete)
			return nil
		},
		"a list without a stream": func(*watch.RaceFreeFakeWatcher, *Informer) error {
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "", nil)
		},
		"a dormant informer": func(_ *watch.RaceFreeFakeWatcher, i *Informer) error {
			i.Sleep()
			return apierrors.NewTooManyRequestsError("it sleeps")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var i *Informer
				attempts := 0
				lw := &toolscache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
					},
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewRaceFreeFake()
						switch attempts++; attempts {
						case 1:
							w.Add(configMap("ns/a", "1"))
							w.Stop()
						case 2:
							return w, next(w, i)
						}
						return w, nil
					},
				}
				i, err := New(func(Receiver) toolscache.ListerWatcher { return lw }, Options{Example: &corev1.ConfigMap{}})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(i.SetTransform(func(any) (any, error) { return nil, errors.New("refused") })).To(Succeed())
				ctx, cancel := context.WithCancel(t.Context())
				go i.RunWithContext(ctx)
				g.Expect(toolscache.WaitForCacheSync(ctx.Done(), i.HasSynced)).To(BeTrue())
				synctest.Wait()
				g.Expect(attempts).To(BeNumerically(">", 1))
				lost, _ := i.Lost()
				g.Expect(lost).To(BeZero())
				cancel()
				synctest.Wait()
			})
		})
	}
}
