// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind/kindtest"
)

func TestPodStatus(t *testing.T) {
	const (
		notIP   = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
		oneEach = "may specify no more than one IP for each IP family"
	)
	podIPs := func(addresses ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.PodIP, pod.Status.PodIPs = "", nil
			for _, address := range addresses {
				pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
			}
		}
	}
	hostIPs := func(first string, addresses ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.HostIP, pod.Status.HostIPs = first, nil
			for _, address := range addresses {
				pod.Status.HostIPs = append(pod.Status.HostIPs, corev1.HostIP{IP: address})
			}
		}
	}
	nominated := func(name string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.NominatedNodeName = name }
	}
	bound := func(name string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.NominatedNodeName = "there", name }
	}
	for _, c := range []struct {
		what        string
		old, change func(*corev1.Pod)
		want        []string
	}{
		{"one address of each family", nil, podIPs("10.0.0.1", "2001:db8::1"), nil},
		{"an address in the old way", nil, func(pod *corev1.Pod) { pod.Status.PodIP = "x" }, []string{`status.podIPs[0]: Invalid value: "x": ` + notIP}},
		{"no address", nil, podIPs("10.0.0.1", "x"), []string{
			`status.podIPs[1]: Invalid value: "x": ` + notIP,
			"status.podIPs: Internal error: failed to check for dual stack with error:invalid IP[1]: x",
			`status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"x"}]: ` + oneEach,
		}},
		{"no address, as before", podIPs("x"), podIPs("x"), nil},
		{"two addresses of a family", nil, podIPs("10.0.0.1", "10.0.0.2"), []string{`status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: ` + oneEach}},
		{"three addresses", nil, podIPs("10.0.0.1", "10.0.0.2", "::1"), []string{
			`status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"},{"ip":"::1"}]: ` + oneEach}},
		{"one address of each family of the host", nil, hostIPs("10.0.0.1", "10.0.0.1", "2001:db8::1"), nil},
		{"an address of the host without others", nil, hostIPs("x"), nil},
		{"another address of the host", nil, hostIPs("10.0.0.2", "10.0.0.1"), []string{"status.hostIPs[0].ip: Invalid value: \"10.0.0.1\": must be equal to `hostIP`"}},
		{"no address of the host", nil, hostIPs("x", "x"), []string{`status.hostIPs[0]: Invalid value: "x": ` + notIP}},
		{"no address of the host, as before", hostIPs("x", "x"), hostIPs("x", "x"), nil},
		{"two addresses of a family of the host", nil, hostIPs("10.0.0.1", "10.0.0.1", "10.0.0.2"), []string{`status.hostIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: ` + oneEach}},
		{"no class of service", nil, func(pod *corev1.Pod) { pod.Status.QOSClass = "" }, nil},
		{"another class of service", nil, func(pod *corev1.Pod) { pod.Status.QOSClass = corev1.PodQOSGuaranteed }, []string{
			`status.qosClass: Invalid value: "Guaranteed": field is immutable`}},
		{"a node that is nominated", nil, nominated("node-1"), nil},
		{"a bad name of a node", nil, nominated("A"), []string{`status.nominatedNodeName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		{"a bad name of a node, as before", nominated("A"), nominated("A"), nil},
		{"a node that is nominated for a Pod that has one", bound(""), bound("node-1"), []string{"status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"}},
		{"a node that was nominated", bound("node-1"), bound("node-1"), nil},
		{"a node that is nominated no longer", bound("node-1"), bound(""), nil},
		{"a generation below zero", nil, func(pod *corev1.Pod) { pod.Status.ObservedGeneration = -1 }, []string{"status.observedGeneration: Invalid value: -1: must be a non-negative integer"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			old := &corev1.Pod{Status: corev1.PodStatus{QOSClass: corev1.PodQOSBestEffort}}
			if c.old != nil {
				c.old(old)
			}
			pod := old.DeepCopy()
			c.change(pod)
			defaultPodStatus(&pod.Status)
			s := kind.NewStatusStrategy(kindtest.StrategyOf(t, CoreKinds(), pod))
			s.PrepareForUpdate(context.Background(), pod, old)
			kindtest.ExpectFindings(t, s.ValidateUpdate(context.Background(), pod, old), c.want)
		})
	}
}
