// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stored is a list of Services in place of the storage.
type stored struct{ corev1.ServiceList }

func (s *stored) list(context.Context) (*corev1.ServiceList, error) { return &s.ServiceList, nil }

func newService(name string, kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

func TestAllocatorKeepsWhatIsNotWrittenYet(t *testing.T) {
	ctx, storage := context.Background(), &stored{}
	a := newServiceAllocator(storage.list)
	one, two, three := newService("one", corev1.ServiceTypeNodePort), newService("two", corev1.ServiceTypeNodePort), newService("three", corev1.ServiceTypeNodePort)
	finish, err := a.begin(ctx, one, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	finish(ctx, true) // a PUT says so before it writes
	if _, err := a.begin(ctx, two, nil, false); err != nil {
		t.Fatal(err)
	}
	if one.Spec.ClusterIP == two.Spec.ClusterIP || one.Spec.Ports[0].NodePort == two.Spec.Ports[0].NodePort {
		t.Errorf("both have %s and port %d", one.Spec.ClusterIP, one.Spec.Ports[0].NodePort)
	}

	a.forget(one) // it was deleted
	if _, err := a.begin(ctx, three, nil, false); err != nil || three.Spec.ClusterIP != one.Spec.ClusterIP {
		t.Errorf("the address %s is not free again: %s, %v", one.Spec.ClusterIP, three.Spec.ClusterIP, err)
	}
}

func TestAllocatorGivesBackWhatIsNotWritten(t *testing.T) {
	for name, end := range map[string]struct{ success, dryRun bool }{"a failure": {false, false}, "a dry run": {true, true}} {
		ctx, storage := context.Background(), &stored{}
		a := newServiceAllocator(storage.list)
		finish, err := a.begin(ctx, newService("one", corev1.ServiceTypeClusterIP), nil, end.dryRun)
		if err != nil {
			t.Fatal(err)
		}
		finish(ctx, end.success)
		if len(a.given) != 0 {
			t.Errorf("%s leaves %v", name, a.given)
		}
	}
}

// TestAllocatorForgetsWritesThatFail has a PUT fail after the store has told of success.
func TestAllocatorForgetsWritesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, storage := t.Context(), &stored{}
		a := newServiceAllocator(storage.list)
		one, two := newService("one", corev1.ServiceTypeNodePort), newService("two", corev1.ServiceTypeNodePort)
		one.Spec.Ports[0].NodePort, two.Spec.Ports[0].NodePort = 30500, 30500
		finish, err := a.begin(ctx, one, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		finish(ctx, true)
		time.Sleep(time.Minute) // its request may be under way
		if _, err := a.begin(ctx, two, nil, false); err == nil {
			t.Error("two Services have a port")
		}
		time.Sleep(longestRequest)
		if _, err := a.begin(ctx, two, nil, false); err != nil {
			t.Errorf("the port of a Service that was not written: %v", err)
		}
	})
}

func TestAllocatorForgetsWhatStorageKnows(t *testing.T) {
	ctx, storage := context.Background(), &stored{}
	a := newServiceAllocator(storage.list)
	for i := range 253 { // 10.0.0.2 to 10.0.0.254
		svc := newService(fmt.Sprint(i), corev1.ServiceTypeClusterIP)
		finish, err := a.begin(ctx, svc, nil, false)
		if err != nil {
			t.Fatalf("service %d: %v", i, err)
		}
		finish(ctx, true)
		storage.Items = append(storage.Items, *svc)
	}
	if len(a.given) > 1 {
		t.Errorf("%d services are remembered, although storage has them", len(a.given))
	}
	if _, err := a.begin(ctx, newService("last", corev1.ServiceTypeClusterIP), nil, false); err == nil {
		t.Error("there was an address beyond the range")
	}
	if _, err := a.begin(ctx, newService("external", corev1.ServiceTypeExternalName), nil, false); err != nil {
		t.Errorf("a service without address: %v", err)
	}
}

func TestAllocatorForgetsWhatAnUpdateGivesUp(t *testing.T) {
	ctx, storage := context.Background(), &stored{}
	a := newServiceAllocator(storage.list)
	one := newService("one", corev1.ServiceTypeNodePort)
	if _, err := a.begin(ctx, one, nil, false); err != nil {
		t.Fatal(err)
	}
	plain := newService("one", corev1.ServiceTypeClusterIP)
	if _, err := a.begin(ctx, plain, one, false); err != nil {
		t.Fatal(err)
	}
	storage.Items = append(storage.Items, *plain)
	two := newService("two", corev1.ServiceTypeNodePort)
	two.Spec.Ports[0].NodePort = one.Spec.Ports[0].NodePort
	if _, err := a.begin(ctx, two, nil, false); err != nil {
		t.Errorf("the node port %d is not free again: %v", one.Spec.Ports[0].NodePort, err)
	}
}

func TestAllocatorTellsOfStorage(t *testing.T) {
	broken := errors.New("broken")
	a := newServiceAllocator(func(context.Context) (*corev1.ServiceList, error) { return nil, broken })
	if _, err := a.begin(context.Background(), newService("one", corev1.ServiceTypeClusterIP), nil, false); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
