// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/lease"
)

var _ = Describe("References to a kind with selectors of its own", func() {
	It("read what the labels of the server select, by a watch of each name and by GETs, and see it leave and return", func(ctx SpecContext) {
		const number = 6
		namespace := newNamespace(ctx)
		for i := range number + 1 {
			s := secretOf(namespace, i, "v")
			s.Labels = map[string]string{"color": "red"}
			if i == number {
				s.Labels["color"] = "blue"
			}
			create(ctx, s)
		}
		red := client.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"color": "red"})}
		c, _ := started(ctx, cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.Secret{}: {Whole: []client.ListOptions{red}}}},
			cache.Options{DefaultTransform: func(obj any) (any, error) {
				obj.(client.Object).SetLabels(nil) // the selectors are those of the objects of the server
				return obj, nil
			}})
		var values sync.Map
		k := runWith(c, func(refs *lease.References[string]) { refs.SetNameWatches(2) }, 1, func(ctx context.Context, refs client.Reader, request string) error {
			secret := &corev1.Secret{}
			err := refs.Get(ctx, named(namespace, request), secret)
			values.Store(request, err == nil)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		defer k.stop()
		for i := range number + 1 {
			k.queue.Add(fmt.Sprint("secret-", i))
		}
		found := func(i int) func() any {
			return func() any { value, _ := values.Load(fmt.Sprint("secret-", i)); return value }
		}
		for i := range number {
			Eventually(found(i)).Should(Equal(true), "secret-%d", i)
		}
		Eventually(found(number)).Should(Equal(false))
		last := &corev1.Secret{}
		for _, color := range []string{"blue", "red"} {
			Expect(api.Get(ctx, named(namespace, fmt.Sprint("secret-", number-1)), last)).To(Succeed())
			last.Labels = map[string]string{"color": color}
			Expect(api.Update(ctx, last)).To(Succeed())
			Eventually(found(number - 1)).Should(Equal(color == "red"))
		}
	})
})
