// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/internal/variable"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// holderArgument makes this program a process that holds the kinds of many namespaces, and says what that takes. A kubeconfig, the
// number of namespaces and the name of the cache follow.
const holderArgument = "holder"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == holderArgument {
		if err := hold(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holding is what a process takes for its cache.
type holding struct {
	footprint
	Connections int64
}

func nameOf(i int) string { return fmt.Sprintf("held-%d", i) }

// dialer counts connections that are open.
type dialer struct{ open atomic.Int64 }

type connection struct {
	net.Conn
	closed func()
}

func (c *connection) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	var once atomic.Bool
	return &connection{conn, func() {
		if once.CompareAndSwap(false, true) {
			d.open.Add(-1)
		}
	}}, nil
}

// hold writes to standard output what it takes to hold the kinds of the namespaces.
func hold(file, namespaces, name string) error {
	log.SetLogger(logr.Discard())
	number, err := strconv.Atoi(namespaces)
	if err != nil {
		return err
	}
	server, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return err
	}
	dials := &dialer{}
	server.QPS, server.Dial = -1, dials.dial
	before := takes()
	c, err := map[string]func() (cache.Cache, error){
		"tarn": func() (cache.Cache, error) {
			labelled, err := labels.Parse("held")
			if err != nil {
				return nil, err
			}
			return cache.With(cache.Tuning{Namespaces: labelled})(server, cache.Options{})
		},
		"controller-runtime": func() (cache.Cache, error) {
			opts := ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{}}
			for i := range number {
				opts.DefaultNamespaces[nameOf(i)] = ctrlcache.Config{}
			}
			return ctrlcache.New(server, opts)
		},
	}[name]()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	defer func() { stop(); <-ended }()
	for _, kind := range tenKinds {
		if _, err := c.GetInformer(ctx, kind); err != nil {
			return err
		}
	}
	if !c.WaitForCacheSync(ctx) {
		return errors.New("the cache has not synced")
	}
	list := &corev1.ConfigMapList{}
	if err := c.List(ctx, list); err != nil {
		return err
	}
	if len(list.Items) < number {
		return fmt.Errorf("%d ConfigMaps in %d namespaces", len(list.Items), number)
	}
	*list = corev1.ConfigMapList{}
	now := holding{takes(), dials.open.Load()}
	now.Goroutines -= before.Goroutines
	now.Heap -= before.Heap
	return json.NewEncoder(os.Stdout).Encode(now)
}

// BenchmarkNamespaces compares what it takes to hold ten kinds of many namespaces, that come and go here and are fixed in
// controller-runtime's cache, each in a process of its own. TARN_NAMESPACES is the number of namespaces.
func BenchmarkNamespaces(b *testing.B) {
	number := int(variable.Number(b, "TARN_NAMESPACES", 50))
	file := serveNamespaces(b, number)
	for b.Loop() {
		theirs, ours := holdingOf(b, file, number, "controller-runtime"), holdingOf(b, file, number, "tarn")
		b.ReportMetric(float64(ours.Goroutines)/float64(theirs.Goroutines), "goroutines-ratio")
		b.ReportMetric(float64(ours.Heap)/float64(theirs.Heap), "heap-ratio")
		b.ReportMetric(float64(ours.Connections)/float64(theirs.Connections), "connections-ratio")
		b.ReportMetric(float64(ours.Heap)/(1<<20), "MiB")
		b.ReportMetric(float64(ours.Goroutines), "goroutines")
	}
}

// serveNamespaces runs a server with the namespaces, and returns a kubeconfig.
func serveNamespaces(b *testing.B, number int) (file string) {
	server := envtest.Start(b)
	config := rest.CopyConfig(server.Config())
	config.QPS = -1
	writer, err := client.New(config, client.Options{})
	for i := 0; i < number && err == nil; i++ {
		ctx := b.Context()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nameOf(i), Labels: map[string]string{"held": ""}}}
		err = errors.Join(writer.Create(ctx, namespace), writer.Create(ctx, configMap(nameOf(i), "one", "odd")))
	}
	if err != nil {
		b.Fatal(err)
	}
	file = filepath.Join(b.TempDir(), "kubeconfig")
	if err := envtest.WriteKubeConfig(file, config); err != nil {
		b.Fatal(err)
	}
	return file
}

// holdingOf returns what a process takes with a cache.
func holdingOf(b *testing.B, file string, number int, name string) (found holding) {
	command := exec.CommandContext(b.Context(), os.Args[0], holderArgument, file, strconv.Itoa(number), name)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		b.Fatalf("the process with the cache of %s failed: %v", name, err)
	}
	b.Logf("%s: %d goroutines, %.1f MiB, %d connections", name, found.Goroutines, float64(found.Heap)/(1<<20), found.Connections)
	return found
}
