// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

// Catalog holds the bytes for a number of Pods. It never changes, so that many
// servers may share it.
type Catalog struct {
	pods  int
	tapes map[Resource]*tape
}

// tape is what can be sent of one resource.
type tape struct {
	stream  []byte      // the streaming list: a frame for each Pod in the order of keys, and the bookmark
	list    []byte      // the same as a list's body; nil if not asked for
	updates [2][]update // two different changes of each updated Pod, in the order of their turns
}

// update is the frame of an event with the digits of its resourceVersion to be
// filled in.
type update struct {
	frame []byte
	at    int
}

// Contents says what a catalog is to hold.
type Contents struct {
	Cluster   synthetic.Cluster
	Pods      int // the number of objects of each resource
	Resources []Resource
	// Lists adds the bodies of plain lists to those of streaming ones.
	Lists bool
}

// NewCatalog encodes the contents: about 100 µs of CPU and 5 KB (Pods) or 8 KB
// (Workloads) for each Pod, and twice that for those with update events.
func NewCatalog(contents Contents) (*Catalog, error) {
	c := &Catalog{pods: contents.Pods, tapes: map[Resource]*tape{}}
	if last := c.version(1 << 29); contents.Pods < 1 || len(last) != len(placeholder) {
		return nil, fmt.Errorf("%d Pods cannot be served: there must be at least 1, and resourceVersions have %d digits",
			contents.Pods, len(placeholder))
	}
	for _, resource := range contents.Resources {
		t, err := c.record(contents, resource)
		if err != nil {
			return nil, err
		}
		c.tapes[resource] = t
	}
	return c, nil
}

// Pods returns how many there are of each resource.
func (c *Catalog) Pods() int { return c.pods }

// version returns that of the state after so many update events.
func (c *Catalog) version(events int) string {
	return strconv.Itoa(synthetic.FirstVersion + c.pods + events)
}

func (c *Catalog) record(contents Contents, resource Resource) (*tape, error) {
	e, err := newEncoder(resource)
	if err != nil {
		return nil, err
	}
	t := &tape{}
	if t.stream, err = c.stream(e, contents.Cluster); err != nil {
		return nil, err
	}
	if t.updates, err = c.updates(e, contents.Cluster); err != nil {
		return nil, err
	}
	if contents.Lists {
		t.list, err = c.list(e, contents.Cluster)
	}
	return t, err
}

// byKey returns the numbers of all Pods in the order in which etcd keeps them.
func (c *Catalog) byKey(cluster synthetic.Cluster) []int {
	numbers, keys := make([]int, c.pods), make([]string, c.pods)
	for i := range numbers {
		id := cluster.Identity(i)
		numbers[i], keys[i] = i, id.Namespace+"/"+id.Name
	}
	slices.SortFunc(numbers, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	return numbers
}

func (c *Catalog) stream(e *encoder, cluster synthetic.Cluster) ([]byte, error) {
	var all bytes.Buffer
	for _, i := range c.byKey(cluster) {
		frame, err := e.event(watch.Added, cluster.Pod(i))
		if err != nil {
			return nil, err
		}
		all.Write(frame)
	}
	end, err := e.endOfList(c.version(0))
	all.Write(end)
	return slices.Clip(all.Bytes()), err
}

func (c *Catalog) list(e *encoder, cluster synthetic.Cluster) ([]byte, error) {
	var all []*corev1.Pod
	for _, i := range c.byKey(cluster) {
		all = append(all, cluster.Pod(i))
	}
	return runtime.Encode(e.objects, e.listOf(c.version(0), all))
}

// placeholder stands for a resourceVersion in the frame of an update; nothing else
// in a frame may look like it.
const placeholder = "979797979"

func (c *Catalog) updates(e *encoder, cluster synthetic.Cluster) ([2][]update, error) {
	chosen := rand.New(rand.NewPCG(cluster.Seed, 0)).Perm(c.pods)[:Updated(c.pods)]
	var all [2][]update
	for lap := range all {
		for _, i := range chosen {
			pod := cluster.Changed(i, lap)
			pod.ResourceVersion = placeholder
			frame, err := e.event(watch.Modified, pod)
			if err != nil {
				return all, err
			}
			if n := bytes.Count(frame, []byte(placeholder)); n != 1 {
				return all, fmt.Errorf("the update of Pod %s/%s has %q %d times: choose another seed", pod.Namespace, pod.Name, placeholder, n)
			}
			all[lap] = append(all[lap], update{frame: bytes.Clone(frame), at: bytes.Index(frame, []byte(placeholder))})
		}
	}
	return all, nil
}

// appendUpdate appends the frame of event number n of a sequence of u.
func (c *Catalog) appendUpdate(to []byte, t *tape, u Updates, n int) []byte {
	pod, before := u.turn(n, Updated(c.pods))
	next := t.updates[before%2][pod]
	start := len(to)
	to = append(to, next.frame...)
	copy(to[start+next.at:], c.version(n+1))
	return to
}
