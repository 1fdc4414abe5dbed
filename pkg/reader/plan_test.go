// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
	"github.com/tarn-dev/tarn/pkg/reader"
)

// TestAPlanSaysHowAListIsAnswered asks for plans of a store with three hundred Pods, until lists have
// paid for an index.
func TestAPlanSaysHowAListIsAnswered(t *testing.T) {
	onEveryStore(t, func(t *testing.T, name string) {
		const number = 300
		f := pods(t, name)
		for n := range number {
			f.store.put(pod([]string{"a", "b", "c"}[n%3], fmt.Sprint("p", n), n+1))
		}
		f.Expect(f.fields.Declare(f.store, "node", func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} })).To(Succeed())
		plan := func(opts ...client.ListOption) reader.Plan {
			p, err := f.Plan(opts...)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(p.Objects).To(Equal(number))
			return p
		}
		f.Expect(plan()).To(Equal(reader.Plan{By: "all", Candidates: number, Objects: number, Whole: true}))
		f.Expect(plan(client.InNamespace("b")).Candidates).To(Equal(number / 3))
		f.Expect(plan(client.MatchingFields{"node": "node-of-p7"})).To(And(HaveField("By", "index"), HaveField("Index", "field:node"), HaveField("Candidates", 1)))
		f.Expect(plan(client.InNamespace("a"), client.MatchingFields{"metadata.name": "p3"})).To(And(HaveField("By", "key"), HaveField("Candidates", 1)))
		f.Expect(plan(client.MatchingFieldsSelector{Selector: fields.Nothing()})).To(And(HaveField("By", "key"), HaveField("Candidates", 0)))
		unknown := (*index.NotIndexedError)(nil)
		_, err := f.Plan(client.MatchingFields{"image": "x"})
		f.Expect(errors.As(err, &unknown)).To(BeTrue())

		byLabel := client.MatchingLabels{"name": "p5"}
		f.Expect(plan(byLabel)).To(And(HaveField("By", "scan"), HaveField("Candidates", number), HaveField("Whole", false)))
		if name == "indexer" {
			return // it makes no indexes on demand
		}
		for range 1000 {
			f.Expect(plan(byLabel).Missing).To(Equal([]string{"label:name"}), "a plan is no list")
		}
		lists := 0
		for ; plan(byLabel).By == "scan" && lists < 1000; lists++ {
			f.Expect(f.List(t.Context(), &corev1.PodList{}, byLabel)).To(Succeed())
		}
		f.Expect(plan(byLabel)).To(Equal(reader.Plan{By: "index", Index: "label:name", Candidates: 1, Objects: number, Whole: true}))
	})
}
