// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind/kindtest"
)

// changedService returns a Service as it is validated: with its defaults and an address.
func changedService(kind corev1.ServiceType, change func(*corev1.Service)) *corev1.Service {
	svc := newService("one", kind)
	if change != nil {
		change(svc)
	}
	DefaultService(svc)
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.0.0.9", []string{"10.0.0.9"}
	return svc
}

func withSources(ranges ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = ranges }
}

func withSourceAnnotation(ranges string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: ranges}
	}
}

func TestServiceSourceRanges(t *testing.T) {
	const (
		balancer   = corev1.ServiceTypeLoadBalancer
		annotation = "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: "
		notCIDR    = `Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`
		hostBits   = `Invalid value: "1.2.3.4/8": must not have bits set beyond the prefix length`
		onlyThere  = "Forbidden: may only be used when `type` is 'LoadBalancer'"
	)
	for _, c := range []struct {
		what        string
		kind        corev1.ServiceType
		change, old func(*corev1.Service) // old is nil on create
		want        []string
	}{
		{"good ones", balancer, withSources("10.0.0.0/8", " 2001:db8::/32 "), nil, nil},
		{"none at all", balancer, withSources("x"), nil, []string{"spec.LoadBalancerSourceRanges[0]: " + notCIDR}},
		{"one beyond its prefix", balancer, withSources("10.0.0.0/8", "1.2.3.4/8"), nil, []string{"spec.LoadBalancerSourceRanges[1]: " + hostBits}},
		{"one that was there", balancer, withSources("1.2.3.4/8"), withSources(" 1.2.3.4/8"), nil},
		{"one that is new beside one that was there", balancer, withSources("x", "1.2.3.4/8"), withSources("1.2.3.4/8"), []string{"spec.LoadBalancerSourceRanges[0]: " + notCIDR}},
		{"another type", corev1.ServiceTypeNodePort, withSources("x"), nil, []string{"spec.LoadBalancerSourceRanges: " + onlyThere, "spec.LoadBalancerSourceRanges[0]: " + notCIDR}},
		{"a good annotation", balancer, withSourceAnnotation(" 10.0.0.0/8, 192.0.2.0/24 "), nil, nil},
		{"an empty annotation", balancer, withSourceAnnotation(" "), nil, nil},
		{"a bad annotation", balancer, withSourceAnnotation("x, 10.0.0.0/8,1.2.3.4/8"), nil, []string{annotation + notCIDR, annotation + hostBits}},
		{"a bad annotation that was there", balancer, withSourceAnnotation("x"), withSourceAnnotation("x"), nil},
		{"a bad annotation instead of another", balancer, withSourceAnnotation("x"), withSourceAnnotation("y"), []string{annotation + notCIDR}},
		{"the annotation of another type", corev1.ServiceTypeClusterIP, withSourceAnnotation("10.0.0.0/8"), nil, []string{annotation + onlyThere}},
		{"a bad annotation beside the field", balancer, func(svc *corev1.Service) {
			withSources("10.0.0.0/8")(svc)
			withSourceAnnotation("x")(svc)
		}, nil, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			var old *corev1.Service
			if c.old != nil {
				old = changedService(c.kind, c.old)
			}
			kindtest.ExpectFindings(t, ValidateService(changedService(c.kind, c.change), old), c.want)
		})
	}
}

func TestServiceExternalIPs(t *testing.T) {
	for _, c := range []struct{ address, old, want string }{
		{"192.0.2.1", "", ""},
		{"2001:db8::1", "", ""},
		{"239.1.1.1", "", ""}, // of the multicast addresses, those of the link alone
		{"x", "", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"},
		{"192.0.02.1", "", "must not have leading 0s"},
		{"192.0.02.1", "192.0.02.1", ""},
		{"::ffff:192.0.2.1", "", "must not be an IPv4-mapped IPv6 address"},
		{"0.0.0.0", "", "may not be unspecified (0.0.0.0)"},
		{"::", "", "may not be unspecified (::)"},
		{"127.0.0.1", "", "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{"127.0.0.1", "127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{"169.254.1.1", "", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{"fe80::1", "", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{"224.0.0.1", "", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		t.Run(c.address+" after "+c.old, func(t *testing.T) {
			having := func(address string) *corev1.Service {
				return changedService(corev1.ServiceTypeClusterIP, func(svc *corev1.Service) { svc.Spec.ExternalIPs = []string{address} })
			}
			var old *corev1.Service
			if c.old != "" {
				old = having(c.old)
			}
			var want []string
			if c.want != "" {
				want = []string{`spec.externalIPs[0]: Invalid value: "` + c.address + `": ` + c.want}
			}
			kindtest.ExpectFindings(t, ValidateService(having(c.address), old), want)
		})
	}
}

func TestServiceAffinityTimeout(t *testing.T) {
	const path, message = "spec.sessionAffinityConfig.clientIP.timeoutSeconds: ", ": must be greater than 0 and less than 86400"
	for seconds, want := range map[int32][]string{
		-1: {path + "Invalid value: -1" + message}, 0: {path + "Invalid value: 0" + message},
		1: nil, 86400: nil, 86401: {path + "Invalid value: 86401" + message},
	} {
		svc := changedService(corev1.ServiceTypeClusterIP, func(svc *corev1.Service) {
			svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(seconds)}}
		})
		kindtest.ExpectFindings(t, ValidateService(svc, nil), want)
	}
}

func TestServiceAddressInRange(t *testing.T) {
	for _, c := range []struct{ wanted, wrong string }{
		{"10.0.0.1", ""},
		{"10.0.0.254", ""},
		{"10.0.0.7", "provided IP is already allocated"},
		{"10.0.0.0", "the provided network does not match the current range"},
		{"10.0.0.255", "the provided network does not match the current range"},
		{"10.0.1.1", "the provided network does not match the current range"},
	} {
		var want []string
		if c.wrong != "" {
			want = []string{`spec.clusterIPs: Invalid value: ["` + c.wanted + `"]: failed to allocate IP ` + c.wanted + ": " + c.wrong}
		}
		spec := &corev1.ServiceSpec{ClusterIP: c.wanted, ClusterIPs: []string{c.wanted}}
		kindtest.ExpectFindings(t, giveClusterIP(spec, []string{"10.0.0.7"}), want)
	}
}
