// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/envtest/campaign"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	before := goleak.IgnoreCurrent()
	code := m.Run()
	if err := goleak.Find(before); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "a campaign has left something:", err)
		code = 1
	}
	os.Exit(code)
}

// journal has what a controller writes down of itself in each run, by its token. The address of its server would not do: a server
// that begins later can have it again.
type journal struct {
	mu     sync.Mutex
	tokens []string // in the order in which the runs began
	lines  map[string][]string
}

func (j *journal) note(config *rest.Config, line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lines == nil {
		j.lines = map[string][]string{}
	}
	if !slices.Contains(j.tokens, config.BearerToken) {
		j.tokens = append(j.tokens, config.BearerToken)
	}
	j.lines[config.BearerToken] = append(j.lines[config.BearerToken], line)
}

// runs returns the lines of each run.
func (j *journal) runs() (all []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, token := range j.tokens {
		all = append(all, strings.Join(j.lines[token], ", "))
	}
	return all
}

// last returns the lines of the last run.
func (j *journal) last() string {
	all := j.runs()
	return all[len(all)-1]
}

// what describes the answer to a request.
func what(err error) string {
	switch reason := apierrors.ReasonForError(err); {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "ended"
	case reason != metav1.StatusReasonUnknown:
		return string(reason)
	}
	return "no answer"
}

// copier is a controller that copies the data of each ConfigMap in the namespace default into a Secret. It looks again until its
// requests succeed.
type copier struct{ journal }

// run implements campaign.Plan.Controller.
func (c *copier) run(ctx context.Context, config *rest.Config) error {
	c.note(config, "start")
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return follow(ctx, k, func(e watch.Event) {
		cm := e.Object.(*corev1.ConfigMap)
		c.note(config, fmt.Sprint(e.Type, " ", cm.Name))
		for e.Type != watch.Deleted && ctx.Err() == nil && c.copy(ctx, config, k, cm) != nil {
		}
	})
}

func (c *copier) copy(ctx context.Context, config *rest.Config, k kubernetes.Interface, cm *corev1.ConfigMap) error {
	secrets := k.CoreV1().Secrets(cm.Namespace)
	secret, err := secrets.Get(ctx, cm.Name, metav1.GetOptions{})
	c.note(config, "get: "+what(err))
	verb := "update"
	switch {
	case apierrors.IsNotFound(err):
		verb = "create"
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: cm.Name}, StringData: cm.Data}, metav1.CreateOptions{})
	case err == nil:
		secret.StringData = cm.Data
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	default:
		return err
	}
	c.note(config, verb+": "+what(err))
	return err
}

// follow calls f for each event of a ConfigMap in the namespace default, until ctx ends.
func follow(ctx context.Context, k kubernetes.Interface, f func(watch.Event)) error {
	w, err := k.CoreV1().ConfigMaps(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			switch {
			case ctx.Err() != nil:
				return nil
			case !ok || e.Type == watch.Error:
				return errors.New("the watch has ended")
			}
			f(e)
		case <-ctx.Done():
			return nil
		}
	}
}

// createAndChange are steps for a copier.
var createAndChange = []campaign.Step{
	{Name: "create", Do: func(ctx context.Context, c client.Client) error { return c.Create(ctx, configMap("1")) }},
	{Name: "change", Do: func(ctx context.Context, c client.Client) error { return c.Update(ctx, configMap("2")) }},
}

func configMap(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "a"}, Data: map[string]string{"key": value},
	}
}

// seen returns how many lines a run has.
func (j *journal) seen(config *rest.Config) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines[config.BearerToken])
}
