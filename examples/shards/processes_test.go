// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/internal/kubeconfig"
	"github.com/tarn-dev/tarn/internal/variable"
)

// patience is for a busy machine.
const patience = 5 * time.Minute

// large is the number of namespaces from which on what one process has without any work is small beside the rest.
const large = 1000

// TestFiveProcesses has five replicas in five processes share namespaces, beside one that has all. One crashes, and two join, while
// objects change: nothing is lost, no two replicas work on one namespace at a time, and few namespaces move that need not.
func TestFiveProcesses(t *testing.T) {
	seed := variable.Number(t, "TARN_SHARDS_SEED", uint64(time.Now().UnixNano()))
	s := newShop(t, int(variable.Number(t, "TARN_SHARDS_NAMESPACES", 50)), int(variable.Number(t, "TARN_SHARDS_OBJECTS", 10)))
	t.Logf("TARN_SHARDS_SEED=%d: %d namespaces, %d objects", seed, len(s.namespaces), s.objects)

	s.give("alone")
	alone := begin(t, s.file, "one", "alone")
	s.settle("one has all", alone)
	one := s.changeAll(rand.New(rand.NewPCG(seed, 1)), alone)[0]
	t.Logf("one replica: %d MiB, %s of CPU, %s of it for changes", one.heap>>20, one.cpu, one.changes)
	alone.leave(t)

	s.give("five")
	var all []*process
	for i := range 5 {
		all = append(all, begin(t, s.file, fmt.Sprintf("m%d", i), "five"))
	}
	first := s.settle("five share it", all...)
	owned := map[string]int{}
	for _, owner := range first {
		owned[owner]++
	}
	for i, is := range s.changeAll(rand.New(rand.NewPCG(seed, 2)), all...) {
		heap, share := float64(is.heap)/float64(one.heap), float64(owned[all[i].name])/float64(len(s.namespaces))
		t.Logf("%s, with %.3f of the namespaces: %d MiB, %.3f of one; %.3f of the CPU, %.3f of that for changes", all[i].name, share, is.heap>>20, heap,
			is.cpu.Seconds()/one.cpu.Seconds(), is.changes.Seconds()/one.changes.Seconds())
		if most := max(0.25, 1.15*share); len(s.namespaces) >= large && (share > 0.23 || heap > most) { // names decide who has more than a fifth
			t.Errorf("%s has %.3f of the namespaces, want 0.23, and %.3f of the heap of one that has all, want %.3f", all[i].name, share, heap, most)
		}
	}

	stop := sync.OnceFunc(s.keepChanging(rand.New(rand.NewPCG(seed, 3))))
	defer stop()
	since := time.Now()
	all[2].crash()
	second := s.settle("one has crashed", all[0], all[1], all[3], all[4])
	all = append(all, begin(t, s.file, "m5", "five"), begin(t, s.file, "m6", "five"))
	live := slices.Delete(slices.Clone(all), 2, 3)
	third := s.settle("two have joined", live...)
	stop()
	s.done()
	until := time.Now()
	for _, p := range live {
		p.leave(t)
	}
	must := changed(first, second) + changed(second, third)
	moved := checkWork(t, all, first, since, until)
	t.Logf("%d namespaces have moved, %d had to", moved, must)
	if must == 0 || float64(moved) > 1.3*float64(must) {
		t.Errorf("%d namespaces have moved, where %d had to", moved, must)
	}
}

// changed returns how many namespaces have another owner.
func changed(before, after map[string]string) (n int) {
	for namespace, owner := range after {
		if before[namespace] != owner {
			n++
		}
	}
	return n
}

// checkWork sees that no two processes work on a namespace at a time. It returns how often another one has begun to in a time, before
// which the namespaces had owners.
func checkWork(t *testing.T, all []*process, owners map[string]string, since, until time.Time) (moved int) {
	for namespace, of := range workOf(all) {
		owner, busy := owners[namespace], work{}
		for _, next := range of {
			if busy.of != nil && busy.of != next.of && next.Begun < busy.Ended {
				t.Errorf("%s begins work on %s %s before %s has ended its own", next.of.name, namespace, time.Duration(busy.Ended-next.Begun), busy.of.name)
			}
			if next.Ended > busy.Ended {
				busy = next
			}
			if next.Begun > since.UnixNano() && next.Begun < until.UnixNano() && owner != next.of.name {
				owner = next.of.name
				moved++
			}
		}
	}
	return moved
}

// shop has the namespaces that replicas share.
type shop struct {
	t          *testing.T
	api        crclient.Client
	file       string // a kubeconfig
	namespaces []string
	each       int // objects of a namespace
	objects    int

	want map[crclient.ObjectKey]string // of the objects that have changed; belongs to the one who changes them
}

func newShop(t *testing.T, namespaces, each int) *shop {
	if gates := os.Getenv("TARN_SHARDS_GATES"); gates != "" {
		if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
			t.Fatal(err)
		}
	}
	env := envtest.Start(t)
	s := &shop{t: t, file: filepath.Join(t.TempDir(), "kubeconfig"), each: each, objects: namespaces * each, want: map[crclient.ObjectKey]string{}}
	content, err := env.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubeconfig.Publish(s.file, content); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(env.Config())
	config.QPS = -1
	if s.api, err = crclient.New(config, crclient.Options{}); err != nil {
		t.Fatal(err)
	}
	for i := range namespaces {
		s.namespaces = append(s.namespaces, fmt.Sprintf("tenant-%d", i))
	}
	for _, home := range []string{"alone", "five"} {
		if err := s.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}); err != nil {
			t.Fatal(err)
		}
	}
	s.parallel(func(ctx context.Context, namespace string) error {
		if err := s.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return err
		}
		for i := range each {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("work-%d", i), Labels: map[string]string{tenantLabel: "any"}}}
			obj.Data = map[string]string{"text": strings.Repeat(namespace+"/"+obj.Name+" ", 150)} // 3 KB that no other object has
			if err := s.api.Create(ctx, obj); err != nil {
				return err
			}
		}
		return nil
	})
	return s
}

// parallel calls f for all namespaces.
func (s *shop) parallel(f func(ctx context.Context, namespace string) error) {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.t.Context())
	group.SetLimit(16)
	for _, namespace := range s.namespaces {
		group.Go(func() error { return f(ctx, namespace) })
	}
	if err := group.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

// give gives all namespaces to the operator of a namespace.
func (s *shop) give(home string) {
	s.t.Helper()
	s.parallel(func(ctx context.Context, namespace string) error {
		return s.api.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, given(home))
	})
}

// changeOne asks for something else in one object.
func (s *shop) changeOne(ctx context.Context, random *rand.Rand) error {
	key := crclient.ObjectKey{Namespace: s.namespaces[random.IntN(len(s.namespaces))], Name: fmt.Sprintf("work-%d", random.IntN(s.each))}
	want := fmt.Sprint(random.Uint64())
	s.want[key] = want
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	return s.api.Patch(ctx, obj, crclient.RawPatch(crclient.Merge.Type(), fmt.Appendf(nil, `{"data":{"want":%q}}`, want)))
}

// figures are what a process takes.
type figures struct {
	heap         uint64
	cpu, changes time.Duration // since its start, and for changes alone
}

// changeAll changes a tenth as many objects as there are, waits until that is done, and returns what the processes take then.
func (s *shop) changeAll(random *rand.Rand, of ...*process) (all []figures) {
	s.t.Helper()
	for _, p := range of {
		all = append(all, figures{changes: -time.Duration(p.report(s.t).CPU)})
	}
	for range s.objects / 10 {
		if err := s.changeOne(s.t.Context(), random); err != nil {
			s.t.Fatal(err)
		}
	}
	s.done()
	for i, p := range of {
		r := p.report(s.t)
		all[i] = figures{r.Heap, time.Duration(r.CPU), all[i].changes + time.Duration(r.CPU)}
	}
	return all
}

// keepChanging changes objects until stop is called.
func (s *shop) keepChanging(random *rand.Rand) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			if err := s.changeOne(context.WithoutCancel(ctx), random); err != nil {
				s.t.Error(err)
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); writer.Wait() }
}

// done waits until everything is done that objects ask for.
func (s *shop) done() {
	s.t.Helper()
	for key, want := range s.want {
		have := ""
		err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			obj := &corev1.ConfigMap{}
			err := s.api.Get(ctx, key, obj)
			have = obj.Data["have"]
			return have == want, err
		})
		if err != nil {
			s.t.Fatalf("%s has %q, want %q: %v", key, have, want, err)
		}
	}
	clear(s.want)
}

// settle waits until the processes know each other, and have each object once. It returns the owners of the namespaces.
func (s *shop) settle(what string, of ...*process) (owners map[string]string) {
	s.t.Helper()
	begun, missing := time.Now(), ""
	err := wait.PollUntilContextTimeout(s.t.Context(), 200*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		owners, missing = s.owners(of)
		return missing == "", nil
	})
	if err != nil {
		s.t.Fatalf("%s: %s: %v", what, missing, err)
	}
	s.t.Logf("%s: settled after %s", what, time.Since(begun).Round(time.Millisecond))
	return owners
}

func (s *shop) owners(of []*process) (owners map[string]string, missing string) {
	owners = map[string]string{}
	objects := 0
	for _, p := range of {
		r := p.report(s.t)
		if r.Members != len(of) {
			return nil, fmt.Sprintf("%s knows %d members", p.name, r.Members)
		}
		if r.Leaving > 0 {
			return nil, fmt.Sprintf("%d namespaces of %s are to go to others", r.Leaving, p.name)
		}
		objects += r.Objects
		for _, namespace := range r.Has {
			owners[namespace] = p.name
		}
	}
	if objects != s.objects || len(owners) != len(s.namespaces) {
		return nil, fmt.Sprintf("they have %d objects of %d, in %d namespaces", objects, s.objects, len(owners))
	}
	return owners, ""
}
