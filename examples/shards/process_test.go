// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/shard"
)

// TestMain lets the test's program be a replica: its arguments are then a kubeconfig, a member and the namespace of the Leases.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "replica" {
		if err := serve(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args[3], err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// line is what a replica says of itself: a reconcile, or a report that was asked for.
type line struct {
	Namespace string   `json:",omitempty"`
	Begun     int64    `json:",omitempty"` // nanoseconds since 1970; all processes have one clock
	Ended     int64    `json:",omitempty"`
	Members   int      `json:",omitempty"`
	Objects   int      `json:",omitempty"` // in the cache
	Has       []string `json:",omitempty"` // the namespaces of these
	Leaving   int      `json:",omitempty"` // of these, how many are to go to others
	Heap      uint64   `json:",omitempty"` // bytes that live
	CPU       int64    `json:",omitempty"` // nanoseconds since the start
}

// serve runs a replica until its standard input ends. It answers each line of it with a report.
func serve(file, member, home string) error {
	log.SetLogger(logr.Discard()) // without one, controller-runtime keeps each logger for half a minute
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return err
	}
	config.QPS = -1
	w := &worker{out: json.NewEncoder(os.Stdout)}
	mgr, ring, err := newManager(config, member, home, func(c crclient.Client) reconcile.Reconciler {
		w.Client = c
		return w
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	for questions := bufio.NewScanner(os.Stdin); questions.Scan(); {
		if err := w.report(ctx, mgr.GetCache(), ring); err != nil {
			return err
		}
	}
	stop()
	return <-ended
}

// worker does what ConfigMaps ask for: it copies "want" to "have".
type worker struct {
	crclient.Client
	mu  sync.Mutex // guards out
	out *json.Encoder
}

// Reconcile implements reconcile.Reconciler.
func (w *worker) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	begun := time.Now()
	err := w.copy(ctx, req)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(line{Namespace: req.Namespace, Begun: begun.UnixNano(), Ended: time.Now().UnixNano()}); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, err
}

func (w *worker) copy(ctx context.Context, req ctrl.Request) error {
	work := &corev1.ConfigMap{}
	if err := w.Get(ctx, req.NamespacedName, work); err != nil || work.Data["want"] == work.Data["have"] {
		return crclient.IgnoreNotFound(err)
	}
	select {
	case <-time.After(10 * time.Millisecond): // work takes time: otherwise no namespace is held when it moves
	case <-ctx.Done():
		return ctx.Err()
	}
	patch := fmt.Appendf(nil, `{"data":{"have":%q}}`, work.Data["want"])
	return w.Patch(ctx, work, crclient.RawPatch(crclient.Merge.Type(), patch))
}

func (w *worker) report(ctx context.Context, c cache.Cache, ring *shard.Ring) error {
	objects, has := 0, map[string]bool{}
	for obj, err := range cache.Iterate(ctx, c, &corev1.ConfigMap{}, crclient.HasLabels{tenantLabel}) { // it keeps nothing
		if errors.As(err, new(*cache.ErrCacheNotStarted)) {
			break
		}
		if err != nil {
			return err
		}
		objects++
		has[obj.Namespace] = true
	}
	leaving := 0
	for namespace := range has {
		if ring.Owner(namespace) != ring.Member() {
			leaving++
		}
	}
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(line{
		Members: len(ring.Members()), Objects: objects, Has: slices.Collect(maps.Keys(has)), Leaving: leaving,
		Heap: memory.HeapAlloc, CPU: used.Utime.Nano() + used.Stime.Nano(),
	})
}

// process is a replica in a process of its own.
type process struct {
	name    string
	command *exec.Cmd
	ask     io.WriteCloser
	reports chan line
	read    chan struct{} // closed when all that it has said is read

	mu         sync.Mutex // guards what follows
	reconciles []line
}

// begin starts a replica.
func begin(t *testing.T, file, member, home string) *process {
	t.Helper()
	p := &process{name: member, command: exec.Command(os.Args[0], "replica", file, member, home), reports: make(chan line, 1), read: make(chan struct{})}
	p.command.Stderr = os.Stderr
	said, err := p.command.StdoutPipe()
	if err == nil {
		p.ask, err = p.command.StdinPipe()
	}
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.crash)
	go p.readAll(said)
	return p
}

func (p *process) readAll(said io.Reader) {
	defer close(p.read)
	for decoder := json.NewDecoder(said); ; {
		l := line{}
		if decoder.Decode(&l) != nil {
			return // it has ended
		}
		if l.Namespace == "" {
			p.reports <- l
			continue
		}
		p.mu.Lock()
		p.reconciles = append(p.reconciles, l)
		p.mu.Unlock()
	}
}

// report asks for a report.
func (p *process) report(t *testing.T) line {
	t.Helper()
	if _, err := fmt.Fprintln(p.ask); err != nil {
		t.Fatalf("%s has ended: %v", p.name, err)
	}
	select {
	case l := <-p.reports:
		return l
	case <-p.read:
		t.Fatalf("%s has ended", p.name)
	case <-time.After(time.Minute):
		t.Fatalf("%s says nothing", p.name)
	}
	return line{}
}

// leave ends a replica in order.
func (p *process) leave(t *testing.T) {
	t.Helper()
	_ = p.ask.Close()
	<-p.read
	if err := p.command.Wait(); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
}

// crash ends a replica without a word.
func (p *process) crash() {
	_ = p.command.Process.Kill()
	<-p.read
	_ = p.command.Wait()
}

// work is the work of a process on a namespace.
type work struct {
	line
	of *process
}

// workOf returns the work on each namespace, in its order.
func workOf(processes []*process) map[string][]work {
	all := map[string][]work{}
	for _, p := range processes {
		p.mu.Lock()
		for _, l := range p.reconciles {
			all[l.Namespace] = append(all[l.Namespace], work{l, p})
		}
		p.mu.Unlock()
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b work) int { return cmp.Compare(a.Begun, b.Begun) })
	}
	return all
}
