// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/watchcache"
)

// mapsOf lists all Pods without copies, and returns what identifies the decoded object of each: its
// one finalizer.
func (l *labelled) mapsOf() map[string]*string {
	list, maps := &corev1.PodList{}, map[string]*string{}
	l.Expect(l.reader.List(l.t.Context(), list, client.UnsafeDisableDeepCopy)).To(Succeed())
	for i := range list.Items {
		maps[list.Items[i].Name] = &list.Items[i].Finalizers[0]
	}
	return maps
}

// write writes a Pod, or deletes it if version is 0.
func (l *labelled) write(name string, version uint64) {
	change := watchcache.Change[object.Object, struct{}]{Item: watchcache.Item[object.Object]{Key: object.Key("ns", name), Revision: version}}
	if change.Deleted = version == 0; !change.Deleted {
		change.Item.Value = l.form.Keep(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: []string{fmt.Sprint("example.com/", version)}}})
	}
	l.engine.Apply(change)
}

// TestListsWithoutCopiesShareObjects lists a whole kind again and again, while objects are written
// and deleted: each list decodes what is new, and nothing else.
func TestListsWithoutCopiesShareObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 1000
		l := newLabelled(t, 0)
		for i := range pods {
			l.write(fmt.Sprint("pod", i), uint64(i+1))
		}
		first := l.mapsOf()
		l.Expect(first).To(HaveLen(pods))
		l.Expect(l.Shared().Objects).To(Equal(pods))
		time.Sleep(9 * time.Second)
		l.Expect(l.mapsOf()).To(Equal(first))

		l.write("pod1", pods+1)
		l.write("pod2", 0)
		l.Expect(l.Shared().Objects).To(Equal(pods-2), "what is gone has gone")
		second := l.mapsOf()
		l.Expect(second).To(HaveLen(pods - 1))
		l.Expect(second["pod1"]).NotTo(BeIdenticalTo(first["pod1"]))
		l.Expect(*second["pod1"]).To(Equal(fmt.Sprint("example.com/", pods+1)))
		l.Expect(second["pod3"]).To(BeIdenticalTo(first["pod3"]))
		l.Expect(l.Shared().Objects).To(Equal(pods - 1))

		one := &corev1.Pod{}
		l.Expect(l.reader.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "pod3"}, one, client.UnsafeDisableDeepCopy)).To(Succeed())
		l.Expect(&one.Finalizers[0]).To(BeIdenticalTo(first["pod3"]))
		copied := &corev1.Pod{}
		l.Expect(l.reader.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "pod3"}, copied)).To(Succeed())
		l.Expect(&copied.Finalizers[0]).NotTo(BeIdenticalTo(first["pod3"]))

		l.engine.Replace(nil, pods+2)
		l.Expect(l.Shared()).To(BeZero())
	})
}
