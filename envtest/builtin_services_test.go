// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// serviceOf returns a Service with one port, and with what a spec wants of it.
func serviceOf(change func(*corev1.ServiceSpec)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	change(&svc.Spec)
	return svc
}

// createService creates one in a namespace of its own, and gives its addresses back in the end: there are few.
func createService(ctx context.Context, svc *corev1.Service) (typedcorev1.ServiceInterface, *corev1.Service, error) {
	GinkgoHelper()
	services := target.kube.CoreV1().Services(newNamespace(ctx))
	made, err := services.Create(ctx, svc, metav1.CreateOptions{})
	if err == nil {
		DeferCleanup(func(ctx SpecContext) { Expect(services.Delete(ctx, svc.Name, metav1.DeleteOptions{})).To(Succeed()) })
	}
	return services, made, err
}

var (
	plain    = func(*corev1.ServiceSpec) {}
	headless = func(spec *corev1.ServiceSpec) { spec.ClusterIP = corev1.ClusterIPNone }
	external = func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	}
	onNode   = func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort }
	balanced = func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeLoadBalancer }
	// local is a load balancer with all that only load balancers have.
	local = func(spec *corev1.ServiceSpec) {
		spec.Type, spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To("example.com/class")
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
)

// alsoWith is a Service with something more.
func alsoWith(base, more func(*corev1.ServiceSpec)) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) {
		base(spec)
		more(spec)
	}
}

var _ = Describe("the addresses of a Service", func() {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	families := func(families ...corev1.IPFamily) func(*corev1.ServiceSpec) {
		return func(spec *corev1.ServiceSpec) { spec.IPFamilies = families }
	}
	policy := func(policy corev1.IPFamilyPolicy) func(*corev1.ServiceSpec) {
		return func(spec *corev1.ServiceSpec) { spec.IPFamilyPolicy = &policy }
	}
	selecting := func(spec *corev1.ServiceSpec) { spec.Selector = map[string]string{"app": "a"} }
	for _, one := range []struct {
		what     string
		change   func(*corev1.ServiceSpec)
		policy   corev1.IPFamilyPolicy
		families []corev1.IPFamily
		once     bool // its manifest cannot be put again
	}{
		{"a plain one", plain, corev1.IPFamilyPolicySingleStack, []corev1.IPFamily{v4}, false},
		{"one that prefers two", alsoWith(plain, policy(corev1.IPFamilyPolicyPreferDualStack)), corev1.IPFamilyPolicyPreferDualStack, []corev1.IPFamily{v4}, false},
		{"a headless one with a selector", alsoWith(headless, selecting), corev1.IPFamilyPolicySingleStack, []corev1.IPFamily{v4}, false},
		{"a headless one without a selector", headless, corev1.IPFamilyPolicyRequireDualStack, []corev1.IPFamily{v4, v6}, false},
		{"a headless one that prefers two", alsoWith(headless, policy(corev1.IPFamilyPolicyPreferDualStack)), corev1.IPFamilyPolicyPreferDualStack, []corev1.IPFamily{v4, v6}, false},
		{"a headless one that wants one", alsoWith(headless, policy(corev1.IPFamilyPolicySingleStack)), corev1.IPFamilyPolicySingleStack, []corev1.IPFamily{v4}, false},
		{"a headless one that names a family", alsoWith(headless, families(v6)), corev1.IPFamilyPolicyRequireDualStack, []corev1.IPFamily{v6, v4}, true},
	} {
		It("are of the families that it wants: "+one.what, func(ctx SpecContext) {
			services, made, err := createService(ctx, serviceOf(one.change))
			Expect(err).NotTo(HaveOccurred())
			Expect(made.Spec.IPFamilyPolicy).To(HaveValue(Equal(one.policy)))
			Expect(made.Spec.IPFamilies).To(Equal(one.families))
			again, err := services.Update(ctx, serviceOf(one.change), metav1.UpdateOptions{})
			if one.once {
				Expect(causes(err)).To(Equal([]string{"spec.ipFamilyPolicy"}), "its own manifest, which now gives up a family")
				return
			}
			Expect(err).NotTo(HaveOccurred(), "its own manifest")
			Expect(again.Spec).To(Equal(made.Spec))
		}, SpecTimeout(patience))
	}

	It("stay when a headless one gets a selector for one family", func(ctx SpecContext) {
		services, _, err := createService(ctx, serviceOf(headless))
		Expect(err).NotTo(HaveOccurred())
		_, err = services.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"selector":{"app":"a"}}}`), metav1.PatchOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(causes(err)).To(ContainElement("spec.ipFamilyPolicy"))
		patched, err := services.Patch(ctx, "one", types.MergePatchType,
			[]byte(`{"spec":{"selector":{"app":"a"},"ipFamilyPolicy":"SingleStack"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Spec.IPFamilies).To(Equal([]corev1.IPFamily{v4}))
	}, SpecTimeout(patience))

	for _, wrong := range []struct {
		what   string
		change func(*corev1.ServiceSpec)
		field  string
	}{
		{"two families of a cluster with one", policy(corev1.IPFamilyPolicyRequireDualStack), "spec.ipFamilyPolicy"},
		{"the other family", families(v6), "spec.ipFamilies[0]"},
		{"an unknown family", families("IPv5"), "spec.ipFamilies[0]"},
		{"a family twice", families(v4, v4), "spec.ipFamilies[1]"},
		{"an unknown policy", policy("Any"), "spec.ipFamilyPolicy"},
		{"two families with a policy of one", alsoWith(families(v4, v6), policy(corev1.IPFamilyPolicySingleStack)), "spec.ipFamilyPolicy"},
		{"an address under its new name alone", func(spec *corev1.ServiceSpec) { spec.ClusterIPs = []string{"10.0.0.77"} }, "spec.clusterIPs"},
		{"two names for two addresses", func(spec *corev1.ServiceSpec) {
			spec.ClusterIP, spec.ClusterIPs = "10.0.0.77", []string{"10.0.0.78"}
		}, "spec.clusterIPs"},
		{"none and some", func(spec *corev1.ServiceSpec) {
			spec.ClusterIP, spec.ClusterIPs = "None", []string{"None", "10.0.0.78"}
		}, "spec.clusterIPs"},
		{"an address of the other family", func(spec *corev1.ServiceSpec) { spec.ClusterIP = "fd00::1" }, "spec.clusterIPs[0]"},
		{"an address that is none", func(spec *corev1.ServiceSpec) { spec.ClusterIP = "10.0.0" }, "spec.clusterIPs[0]"},
		{"an address for a name", alsoWith(external, headless), "spec.clusterIPs"},
		{"a family for a name", alsoWith(external, families(v4)), "spec.ipFamilies"},
		{"a policy for a name", alsoWith(external, policy(corev1.IPFamilyPolicySingleStack)), "spec.ipFamilyPolicy"},
	} {
		It("are refused: "+wrong.what, func(ctx SpecContext) {
			_, _, err := createService(ctx, serviceOf(wrong.change))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(ContainElement(wrong.field))
		}, SpecTimeout(patience))
	}
})

var _ = Describe("the name of a Service", func() {
	It("may begin with a digit", func(ctx SpecContext) {
		svc := serviceOf(plain)
		svc.Name = "1abc"
		_, _, err := createService(ctx, svc)
		Expect(err).NotTo(HaveOccurred())
		svc = serviceOf(plain)
		svc.Name = "a.b"
		_, _, err = createService(ctx, svc)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	for name, valid := range map[string]bool{"example.com": true, "example.com.": true, "1.example.com.": true, ".": false, "example.com..": false, "-": false} {
		It("may stand for another: "+name, func(ctx SpecContext) {
			_, made, err := createService(ctx, serviceOf(alsoWith(external, func(spec *corev1.ServiceSpec) { spec.ExternalName = name })))
			if valid {
				Expect(err).NotTo(HaveOccurred())
				Expect(made.Spec.ExternalName).To(Equal(name))
				return
			}
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(Equal([]string{"spec.externalName"}))
		}, SpecTimeout(patience))
	}
})

var _ = Describe("the type of a Service", func() {
	kinds := map[string]func(*corev1.ServiceSpec){"ClusterIP": plain, "NodePort": onNode, "LoadBalancer": local, "ExternalName": external}
	patches := map[string]string{
		"ClusterIP": `{"spec":{"type":"ClusterIP"}}`, "NodePort": `{"spec":{"type":"NodePort"}}`,
		"LoadBalancer": `{"spec":{"type":"LoadBalancer"}}`, "ExternalName": `{"spec":{"type":"ExternalName","externalName":"example.com"}}`,
	}
	for from, change := range kinds {
		for to, patch := range patches {
			It("decides what a Service has: from "+from+" to "+to, func(ctx SpecContext) {
				services, made, err := createService(ctx, serviceOf(change))
				Expect(err).NotTo(HaveOccurred())
				expectFieldsOfType(made)
				made.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
				if from == "LoadBalancer" {
					made, err = services.UpdateStatus(ctx, made, metav1.UpdateOptions{})
					Expect(err).NotTo(HaveOccurred())
					Expect(made.Status.LoadBalancer.Ingress).To(HaveLen(1))
				}
				now, err := services.Patch(ctx, "one", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(string(now.Spec.Type)).To(Equal(to))
				expectFieldsOfType(now)
				if from == to {
					Expect(now.Spec).To(Equal(made.Spec))
				}
				if from != "ExternalName" && to != "ExternalName" {
					Expect(now.Spec.ClusterIPs).To(Equal(made.Spec.ClusterIPs))
				}
				if made.Spec.Ports[0].NodePort != 0 && now.Spec.Ports[0].NodePort != 0 {
					Expect(now.Spec.Ports).To(Equal(made.Spec.Ports))
				}
				if from == "LoadBalancer" && to == "NodePort" {
					Expect(now.Spec.ExternalTrafficPolicy).To(Equal(corev1.ServiceExternalTrafficPolicyLocal))
				}
				if to != "LoadBalancer" {
					Expect(now.Status.LoadBalancer.Ingress).To(BeEmpty())
				}
			}, SpecTimeout(patience))
		}
	}

	for _, wrong := range []struct {
		what   string
		change func(*corev1.ServiceSpec)
		patch  string // made after the creation; "" if that is refused already
		field  string
	}{
		{"no node ports for load balancers", alsoWith(plain, func(spec *corev1.ServiceSpec) { spec.AllocateLoadBalancerNodePorts = ptr.To(false) }), "", "spec.allocateLoadBalancerNodePorts"},
		{"a class of load balancers", alsoWith(plain, func(spec *corev1.ServiceSpec) { spec.LoadBalancerClass = ptr.To("example.com/a") }), "", "spec.loadBalancerClass"},
		{"a class with a bad name", alsoWith(balanced, func(spec *corev1.ServiceSpec) { spec.LoadBalancerClass = ptr.To("a/b/c") }), "", "spec.loadBalancerClass"},
		{"a policy for traffic from outside", alsoWith(plain, func(spec *corev1.ServiceSpec) { spec.ExternalTrafficPolicy = "Local" }), "", "spec.externalTrafficPolicy"},
		{"an unknown policy for traffic", alsoWith(onNode, func(spec *corev1.ServiceSpec) { spec.ExternalTrafficPolicy = "Any" }), "", "spec.externalTrafficPolicy"},
		{"a port for health checks", alsoWith(onNode, func(spec *corev1.ServiceSpec) { spec.HealthCheckNodePort = 30023 }), "", "spec.healthCheckNodePort"},
		{"a range of sources that is none", alsoWith(balanced, func(spec *corev1.ServiceSpec) { spec.LoadBalancerSourceRanges = []string{"x"} }), "", "spec.LoadBalancerSourceRanges[0]"},
		{"an address of the host alone", alsoWith(plain, func(spec *corev1.ServiceSpec) { spec.ExternalIPs = []string{"127.0.0.1"} }), "", "spec.externalIPs[0]"},
		{"the address of the network", alsoWith(plain, func(spec *corev1.ServiceSpec) { spec.ClusterIP = "10.0.0.0" }), "", "spec.clusterIPs"},
		{"another class", local, `{"spec":{"loadBalancerClass":"example.com/other"}}`, "spec.loadBalancerClass"},
		{"another port for health checks", local, `{"spec":{"healthCheckNodePort":30023}}`, "spec.healthCheckNodePort"},
		{"a class that it just got", local, `{"spec":{"type":"ClusterIP","loadBalancerClass":"example.com/other"}}`, "spec.loadBalancerClass"},
		{"node ports that it just got", local, `{"spec":{"type":"ClusterIP","ports":[{"port":80,"nodePort":30024}]}}`, "spec.ports[0].nodePort"},
		{"an address that it just got", plain, `{"spec":{"type":"ExternalName","externalName":"a","clusterIP":"10.0.0.9"}}`, "spec.clusterIPs"},
		{"an address where it had none", alsoWith(headless, func(spec *corev1.ServiceSpec) { spec.Selector = map[string]string{"a": "b"} }),
			`{"spec":{"clusterIP":"10.0.0.9"}}`, "spec.clusterIPs[0]"},
	} {
		It("forbids what does not belong to it: "+wrong.what, func(ctx SpecContext) {
			services, _, err := createService(ctx, serviceOf(wrong.change))
			if wrong.patch != "" {
				Expect(err).NotTo(HaveOccurred())
				_, err = services.Patch(ctx, "one", types.MergePatchType, []byte(wrong.patch), metav1.PatchOptions{})
			}
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(ContainElement(wrong.field))
		}, SpecTimeout(patience))
	}
})

// expectFieldsOfType checks that a Service has the fields of its type and no others.
func expectFieldsOfType(svc *corev1.Service) {
	GinkgoHelper()
	spec := svc.Spec
	inCluster, balanced := spec.Type != corev1.ServiceTypeExternalName, spec.Type == corev1.ServiceTypeLoadBalancer
	outside := balanced || spec.Type == corev1.ServiceTypeNodePort
	checked := balanced && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	for _, field := range []struct {
		name       string
		value      any
		applicable bool
	}{
		{"clusterIP", spec.ClusterIP, inCluster}, {"clusterIPs", spec.ClusterIPs, inCluster},
		{"ipFamilies", spec.IPFamilies, inCluster}, {"ipFamilyPolicy", spec.IPFamilyPolicy, inCluster},
		{"nodePort", spec.Ports[0].NodePort, outside}, {"externalTrafficPolicy", spec.ExternalTrafficPolicy, outside},
		{"internalTrafficPolicy", spec.InternalTrafficPolicy, inCluster},
		{"allocateLoadBalancerNodePorts", spec.AllocateLoadBalancerNodePorts, balanced},
		{"healthCheckNodePort", spec.HealthCheckNodePort, checked},
	} {
		if field.applicable {
			Expect(field.value).NotTo(BeZero(), field.name)
		} else {
			Expect(field.value).To(BeZero(), field.name)
		}
	}
	if !balanced {
		Expect(spec.LoadBalancerClass).To(BeNil())
	}
}

var _ = Describe("the node ports of a Service", func() {
	ports := func(ports ...corev1.ServicePort) func(*corev1.ServiceSpec) {
		return alsoWith(onNode, func(spec *corev1.ServiceSpec) { spec.Ports = ports })
	}
	tcp := corev1.ServicePort{Name: "tcp", Port: 53, Protocol: corev1.ProtocolTCP}
	udp := corev1.ServicePort{Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP}
	numbered := func(port corev1.ServicePort, number int32) corev1.ServicePort {
		port.NodePort = number
		return port
	}

	It("are left to those who ask for the first ones, and so are addresses", func(ctx SpecContext) {
		_, made, err := createService(ctx, serviceOf(ports(tcp)))
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Ports[0].NodePort).To(BeNumerically(">=", 30086))
		Expect(netip.MustParseAddr(made.Spec.ClusterIP).Less(netip.MustParseAddr("10.0.0.16"))).To(BeFalse(), made.Spec.ClusterIP)
	}, SpecTimeout(patience))

	It("are one for one port of two protocols", func(ctx SpecContext) {
		services, made, err := createService(ctx, serviceOf(ports(tcp, udp)))
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Ports[0].NodePort).NotTo(BeZero())
		Expect(made.Spec.Ports[1].NodePort).To(Equal(made.Spec.Ports[0].NodePort))
		again, err := services.Update(ctx, serviceOf(ports(tcp, udp)), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Spec.Ports).To(Equal(made.Spec.Ports))
	}, SpecTimeout(patience))

	It("are one for both when one of them is chosen", func(ctx SpecContext) {
		_, made, err := createService(ctx, serviceOf(ports(tcp, numbered(udp, 30053))))
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Ports[0].NodePort).To(Equal(int32(30053)))
	}, SpecTimeout(patience))

	It("stay with the name of their port", func(ctx SpecContext) {
		https := corev1.ServicePort{Name: "https", Port: 443}
		services, made, err := createService(ctx, serviceOf(ports(tcp, https)))
		Expect(err).NotTo(HaveOccurred())
		other := tcp
		other.Port = 5353
		again, err := services.Update(ctx, serviceOf(ports(https, other)), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Spec.Ports[0].NodePort).To(Equal(made.Spec.Ports[1].NodePort))
		Expect(again.Spec.Ports[1].NodePort).To(Equal(made.Spec.Ports[0].NodePort))

		By("giving one to the other")
		again, err = services.Update(ctx, serviceOf(ports(numbered(https, made.Spec.Ports[0].NodePort), other)), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Spec.Ports[0].NodePort).To(Equal(made.Spec.Ports[0].NodePort))
		Expect(again.Spec.Ports[1].NodePort).NotTo(BeElementOf(int32(0), made.Spec.Ports[0].NodePort))
	}, SpecTimeout(patience))

	It("are of nobody else, nor is the port for health checks", func(ctx SpecContext) {
		services, made, err := createService(ctx, serviceOf(local))
		Expect(err).NotTo(HaveOccurred())
		again, err := services.Update(ctx, serviceOf(local), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Spec).To(Equal(made.Spec))
		for _, taken := range []int32{made.Spec.Ports[0].NodePort, made.Spec.HealthCheckNodePort} {
			_, _, err = createService(ctx, serviceOf(ports(numbered(tcp, taken))))
			Expect(err).To(MatchError(ContainSubstring("provided port is already allocated")))
			Expect(causes(err)).To(Equal([]string{"spec.ports[0].nodePort"}))
		}
		_, _, err = createService(ctx, serviceOf(alsoWith(local, func(spec *corev1.ServiceSpec) { spec.HealthCheckNodePort = made.Spec.Ports[0].NodePort })))
		Expect(err).To(MatchError(ContainSubstring("provided port is already allocated")))
		_, _, err = createService(ctx, serviceOf(ports(numbered(tcp, 30054), numbered(corev1.ServicePort{Name: "b", Port: 54}, 30054))))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("are given up with the Service", func(ctx SpecContext) {
		services, _, err := createService(ctx, serviceOf(alsoWith(local, func(spec *corev1.ServiceSpec) { spec.HealthCheckNodePort = 30055 })))
		Expect(err).NotTo(HaveOccurred())
		patched, err := services.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"externalTrafficPolicy":"Cluster"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Spec.HealthCheckNodePort).To(BeZero())
		_, err = services.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"type":"ClusterIP"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, made, err := createService(ctx, serviceOf(ports(numbered(tcp, 30055))))
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Ports[0].NodePort).To(Equal(int32(30055)))
	}, SpecTimeout(patience))

	It("are not taken by what is written to the status", func(ctx SpecContext) {
		services, made, err := createService(ctx, serviceOf(onNode))
		Expect(err).NotTo(HaveOccurred())
		taken, number := made.DeepCopy(), made.Spec.Ports[0].NodePort
		taken.Spec.Ports[0].NodePort = 30056
		updated, err := services.UpdateStatus(ctx, taken, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Spec.Ports[0].NodePort).To(Equal(number))
		_, _, err = createService(ctx, serviceOf(ports(numbered(tcp, 30056))))
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))
})
