// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
)

// twin is one of two Pods that have annotations in common with each other alone, so
// that the dictionary takes them in.
func twin(n, version int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("pod", n), ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{},
	}}
	for i := range 4 {
		pod.Annotations[fmt.Sprint("annotation", i)] = fmt.Sprintf("%d of pair %d at version %d", i, n/2, version)
	}
	return pod
}

// TestAWornDictionaryIsRenewed replaces every object until most of the dictionary is
// dead, and moves what is there then to a new one.
func TestAWornDictionaryIsRenewed(t *testing.T) {
	g := NewWithT(t)
	f := podForm()
	f.Declare("name", func(o client.Object) []string { return []string{o.GetName()} })
	const pods = 3000
	kept := make([]object.Object, pods)
	for i := range kept {
		kept[i] = f.Keep(twin(i, 1))
	}
	g.Expect(f.Stale(pods)).To(BeFalse(), "all of it is in use")
	old := append([]object.Object(nil), kept...)
	version := 1
	for ; !f.Stale(pods) && version < 10; version++ {
		for i := range kept {
			kept[i] = f.Keep(twin(i, version+1))
		}
	}
	g.Expect(version).To(And(BeNumerically(">=", 2), BeNumerically("<", 5)), "half of it is dead after a round or two")

	last, move := kept[0], f.Renew()
	for i := range kept {
		kept[i] = move(kept[i])
	}
	g.Expect(f.Stale(pods)).To(BeFalse())
	for i, o := range kept {
		g.Expect(o.IsFlat()).To(BeTrue())
		g.Expect(o.Dictionary()).To(BeIdenticalTo(kept[0].Dictionary()))
		g.Expect(f.Copy(o)).To(Equal(twin(i, version)))
		g.Expect(values(f, o, "name")).To(Equal([]string{fmt.Sprint("pod", i)}))
	}
	for i, o := range old[:10] {
		g.Expect(f.Copy(o)).To(Equal(twin(i, 1)), "what was not moved stays readable")
	}
	g.Expect(last.Dictionary()).NotTo(BeIdenticalTo(kept[0].Dictionary()))
	g.Expect(f.Keep(twin(0, version)).Dictionary()).To(BeIdenticalTo(kept[0].Dictionary()))
	g.Expect(f.Copy(last)).To(Equal(twin(0, version)))
}

// TestAnObjectKeptBeforeARenewalIsRefreshed keeps an object, as a decoder of a watch may,
// that comes to its store after the others have moved.
func TestAnObjectKeptBeforeARenewalIsRefreshed(t *testing.T) {
	g := NewWithT(t)
	f := podForm()
	late := f.Keep(twin(0, 1))
	f.Renew()
	f.Declare("name", func(o client.Object) []string { return []string{o.GetName()} })
	newest := f.Keep(twin(1, 1)).Dictionary()
	g.Expect(late.Dictionary()).NotTo(BeIdenticalTo(newest))
	fresh := f.Refresh(late)
	g.Expect(fresh.Dictionary()).To(BeIdenticalTo(newest))
	g.Expect(f.Copy(fresh)).To(Equal(twin(0, 1)))
	g.Expect(values(f, fresh, "name")).To(Equal([]string{"pod0"}))
}
