// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// TestFaultPointsRefuse has rules and actions that a fault point does not know.
func TestFaultPointsRefuse(t *testing.T) {
	fail := faults.Respond(errors.New("no"))
	for want, c := range map[string]struct {
		rule   faults.Rule
		action faults.Action
	}{
		"there is no fault point Station(9)":                   {faults.Rule{Station: 9}, fail},
		"UserAgent matches nothing at the fault point Storage": {faults.Rule{Station: faults.Storage, UserAgent: "a"}, fail},
		"Subresource matches nothing":                          {faults.Rule{Station: faults.Storage, Subresource: "status"}, fail},
		"Type matches nothing":                                 {faults.Rule{Station: faults.Storage, Type: "ADDED"}, fail},
		`the verb "patch" matches nothing`:                     {faults.Rule{Station: faults.Storage, Verb: "patch"}, fail},
		"Namespace matches nothing at the fault point Etcd":    {faults.Rule{Station: faults.Etcd, Namespace: "a"}, fail},
		`the verb "get" matches nothing`:                       {faults.Rule{Station: faults.Etcd, Verb: "get"}, fail},
		"Verb matches nothing at the fault point Webhook":      {faults.Rule{Station: faults.Webhook, Verb: "create"}, fail},
		"When matches nothing at the fault point Clock":        {faults.Rule{Station: faults.Clock, When: func(faults.Held) bool { return true }}, faults.Shift(1)},
		"only the fault point Webhook knows it":                {faults.Rule{Path: "/a"}, fail},
		"Respond happens to requests":                          {faults.Rule{Verb: "watch", Type: "ADDED"}, fail},
		"Cut happens to requests and whole watches":            {faults.Rule{Verb: "watch", Type: "*"}, faults.Cut(0)},
		"Expire happens to requests and whole watches":         {faults.Rule{Verb: "watch", Type: "*"}, faults.Expire()},
		"Shift cannot happen at the fault point HTTP":          {faults.Rule{}, faults.Shift(time.Hour)},
		"shifted by nothing":                                   {faults.Rule{Station: faults.Clock}, faults.Shift(0)},
		"Respond cannot happen at the fault point Clock":       {faults.Rule{Station: faults.Clock}, fail},
		"Corrupt cannot happen at the fault point Etcd":        {faults.Rule{Station: faults.Etcd}, faults.Corrupt()},
		"Corrupt is about what is read":                        {faults.Rule{Station: faults.Storage, Verb: "create"}, faults.Corrupt()},
		"DropAnswer cannot happen at the fault point Webhook":  {faults.Rule{Station: faults.Webhook}, faults.DropAnswer()},
		"it has Cut(0)":                         {faults.Rule{Station: faults.Storage, Verb: "watch"}, faults.Cut(2)},
		"Expire is about the events of watches": {faults.Rule{Station: faults.Storage}, faults.Expire()},
		"negative":                              {faults.Rule{Station: faults.Clock, Times: -1}, faults.Shift(1)},
	} {
		_, err := faults.New().Inject(c.rule, c.action)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a rule %+v: want %q, got %v", c.rule, want, err)
		}
	}
	if _, err := faults.New().Hold(faults.Rule{Station: faults.Storage}); err == nil || !strings.Contains(err.Error(), "holds nothing back") {
		t.Errorf("a Hold at the storage: %v", err)
	}
	if _, err := faults.New().HoldAnswers(faults.Rule{Station: faults.Etcd}); err == nil || !strings.Contains(err.Error(), "holds nothing back") {
		t.Errorf("a Hold of answers of etcd: %v", err)
	}
}

var _ = Describe("an Injector", func() {
	It("has no fault point inside a server behind a proxy", func(ctx SpecContext) {
		inner := faults.New()
		running, stop := context.WithCancel(ctx)
		defer stop()
		_, err := inner.NewProxy(running, env.Config())
		Expect(err).NotTo(HaveOccurred())
		_, err = inner.Inject(faults.Rule{Station: faults.Storage}, faults.Respond(conflict))
		Expect(err).To(MatchError(ContainSubstring("a proxy before one has only HTTP")))

		late := faults.New()
		_, err = late.Inject(faults.Rule{Station: faults.Clock}, faults.Shift(time.Hour))
		Expect(err).NotTo(HaveOccurred())
		_, err = late.NewProxy(running, env.Config())
		Expect(err).To(MatchError(ContainSubstring("the fault point Clock, which is inside the server")))
	}, SpecTimeout(patience))

	It("takes no rule when its environment has stopped", func(ctx SpecContext) {
		own := faults.New()
		for _, begin := range []bool{true, false} {
			other := envtest.New(envtest.Options{Faults: own})
			if begin {
				Expect(other.Start(ctx)).To(Succeed())
			}
			Expect(other.Stop()).To(Succeed())
			_, err := own.Inject(faults.Rule{Station: faults.Storage}, faults.Respond(conflict))
			Expect(err).To(MatchError(ContainSubstring("has stopped: make a new Injector")))
			_, err = own.Hold(faults.Rule{Verb: "watch"})
			Expect(err).To(MatchError(ContainSubstring("has stopped: make a new Injector")))
		}
	}, SpecTimeout(long))

	It("leaves the start of its server alone, unless a rule names the server", func(ctx SpecContext) {
		own := faults.New()
		fault, err := own.Inject(faults.Rule{Station: faults.Storage}, faults.Respond(errors.New("broken")))
		Expect(err).NotTo(HaveOccurred())
		etcd, err := own.Inject(faults.Rule{Station: faults.Etcd}, faults.Respond(errors.New("broken")))
		Expect(err).NotTo(HaveOccurred())
		other := envtest.New(envtest.Options{Faults: own})
		Expect(other.Start(ctx)).To(Succeed())
		Expect(fault.Hits() + etcd.Hits()).To(BeZero())
		Expect(other.Stop()).To(Succeed())

		own = faults.New()
		_, err = own.Inject(faults.Rule{Station: faults.Storage, Resource: "namespaces", User: "system:apiserver"}, faults.Respond(errors.New("broken")))
		Expect(err).NotTo(HaveOccurred())
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		err = envtest.New(envtest.Options{Faults: own}).Start(short)
		Expect(err).To(MatchError(And(
			ContainSubstring("these faults were in force: Respond (Storage namespaces system:apiserver), hit"))))
	}, SpecTimeout(long))
})

func TestRuleIsDescribed(t *testing.T) {
	r := faults.Rule{Station: faults.Etcd, Verb: "txn", Group: "core", Resource: "pods", User: "u"}
	if got, want := r.String(), "Etcd txn core pods u"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
