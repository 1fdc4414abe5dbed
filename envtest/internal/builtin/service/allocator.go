// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// Addresses and node ports that the server gives out: those of a kube-apiserver that is started without flags.
var serviceRange = netip.MustParsePrefix("10.0.0.0/24")

// Numbers that clients choose are most often at the beginning of a range. So the server gives out what is behind it first, from
// dynamicAddress (KEP-3070) and dynamicNodePort (KEP-3668) on.
const (
	firstNodePort   = 30000
	dynamicNodePort = 30086
	lastNodePort    = 32767
)

var dynamicAddress = netip.MustParseAddr("10.0.0.16")

// serviceAllocator gives cluster IPs and node ports that no other Service has. Taken are the numbers of the stored
// Services, and of requests whose write is not seen in storage yet. What was given to a write that has failed, which nobody tells, is
// free again when no request is as old.
type serviceAllocator struct {
	list func(context.Context) (*corev1.ServiceList, error)

	mu    sync.Mutex                     // held while a request chooses
	given map[types.NamespacedName]grant // guarded by mu
}

// grant is what a request was given, and when.
type grant struct {
	taken
	at time.Time
}

// longestRequest is more than the minute that a request may take.
const longestRequest = 2 * time.Minute

// taken are addresses and node ports in use.
type taken struct {
	addresses []string
	ports     []int32
}

func newServiceAllocator(list func(context.Context) (*corev1.ServiceList, error)) *serviceAllocator {
	return &serviceAllocator{list: list, given: map[types.NamespacedName]grant{}}
}

// begin completes svc with what its type needs and does not have yet. old is nil on create. The returned function is called
// with false when svc will not be written.
func (a *serviceAllocator) begin(ctx context.Context, svc, old *corev1.Service, dryRun bool) (genericregistry.FinishFunc, error) {
	if old != nil {
		a.seen(old)
		keepAllocated(svc, old)
	}
	syncClusterIPs(svc, old)
	if errs := giveFamilies(svc, old); len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, errs)
	}
	if old != nil && settled(svc, old) {
		return func(context.Context, bool) {}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used, err := a.used(ctx, svc)
	if err != nil {
		return nil, err
	}
	if dryRun { // nothing is taken, so that nothing is taken twice
		used.addresses = nil
	}
	var errs field.ErrorList
	if hasClusterIP(svc) && !isHeadless(svc) && (old == nil || !hasClusterIP(old)) {
		errs = giveClusterIP(&svc.Spec, used.addresses)
	}
	errs = append(errs, givePorts(svc, old, used.ports)...)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, errs)
	}
	// The store tells of success before it writes, when the write is a PUT: what was given is kept until it shows up.
	a.given[keyOf(svc)] = grant{takenBy(svc), time.Now()}
	return func(_ context.Context, success bool) {
		if !success || dryRun {
			a.forget(svc)
		}
	}, nil
}

// seen ends what was given to a Service that is stored with it: from now on it may lose it again.
func (a *serviceAllocator) seen(svc *corev1.Service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if takenBy(svc).holds(a.given[keyOf(svc)].taken) {
		delete(a.given, keyOf(svc))
	}
}

// forget ends what was given to a Service that is gone or was never written.
func (a *serviceAllocator) forget(svc *corev1.Service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.given, keyOf(svc))
}

// used collects what all Services but svc have. The caller holds mu.
func (a *serviceAllocator) used(ctx context.Context, svc *corev1.Service) (taken, error) {
	list, err := a.list(ctx)
	if err != nil {
		return taken{}, fmt.Errorf("look up the addresses of the existing services: %w", err)
	}
	var used taken
	for i := range list.Items {
		key, stored := keyOf(&list.Items[i]), takenBy(&list.Items[i])
		if stored.holds(a.given[key].taken) {
			delete(a.given, key)
		}
		if key != keyOf(svc) {
			used.add(stored)
		}
	}
	maps.DeleteFunc(a.given, func(_ types.NamespacedName, given grant) bool { return time.Since(given.at) > longestRequest })
	for key, given := range a.given {
		if key != keyOf(svc) {
			used.add(given.taken)
		}
	}
	return used, nil
}

func keyOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}

// settled reports whether an update needs nothing that old does not have.
func settled(svc, old *corev1.Service) bool {
	if hasClusterIP(svc) && !hasClusterIP(old) || checksHealth(svc) && svc.Spec.HealthCheckNodePort == 0 {
		return false
	}
	for _, port := range svc.Spec.Ports {
		if port.NodePort == 0 && wantsNodePorts(svc) {
			return false
		}
	}
	return takenBy(old).holds(taken{ports: takenBy(svc).ports})
}

// holds reports whether t has all of other.
func (t taken) holds(other taken) bool {
	for _, address := range other.addresses {
		if !slices.Contains(t.addresses, address) {
			return false
		}
	}
	for _, port := range other.ports {
		if !slices.Contains(t.ports, port) {
			return false
		}
	}
	return true
}

func (t *taken) add(more taken) {
	t.addresses = append(t.addresses, more.addresses...)
	t.ports = append(t.ports, more.ports...)
}

// takenBy returns what one Service has.
func takenBy(svc *corev1.Service) taken {
	t := taken{ports: nodePorts(svc)}
	if hasClusterIP(svc) && !isHeadless(svc) && svc.Spec.ClusterIP != "" {
		t.addresses = append(t.addresses, svc.Spec.ClusterIP)
	}
	if port := svc.Spec.HealthCheckNodePort; port != 0 {
		t.ports = append(t.ports, port)
	}
	return t
}

// giveClusterIP chooses or checks the address.
func giveClusterIP(spec *corev1.ServiceSpec, used []string) field.ErrorList {
	path := field.NewPath("spec", "clusterIPs")
	if spec.ClusterIP != "" {
		if wrong := checkAddress(spec.ClusterIP, used); wrong != "" {
			return field.ErrorList{field.Invalid(path, []string{spec.ClusterIP}, wrong)}
		}
		return nil
	}
	free, ok := freeAddress(used)
	if !ok {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("all addresses of %s are in use; delete services", serviceRange))}
	}
	spec.ClusterIP, spec.ClusterIPs = free, []string{free}
	return nil
}

// freeAddress returns the lowest address from dynamicAddress on that is not in use, or else the lowest of the range. The first one
// belongs to the Service default/kubernetes, which asks for it by name.
func freeAddress(used []string) (string, bool) {
	for _, from := range []netip.Addr{dynamicAddress, serviceRange.Addr().Next().Next()} {
		for addr := from; serviceRange.Contains(addr.Next()); addr = addr.Next() {
			if s := addr.String(); !slices.Contains(used, s) {
				return s, true
			}
		}
	}
	return "", false
}

// checkAddress says what is wrong with an address that the client asks for.
func checkAddress(wanted string, used []string) string {
	addr, err := netip.ParseAddr(wanted)
	switch {
	case err != nil:
		return "must be a valid IP address, (e.g. 10.9.8.7)"
	case !serviceRange.Contains(addr), addr == serviceRange.Addr(), !serviceRange.Contains(addr.Next()): // the last ones name the network, and all of it
		return fmt.Sprintf("failed to allocate IP %s: the provided network does not match the current range", wanted)
	case slices.Contains(used, wanted):
		return fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", wanted)
	}
	return ""
}
