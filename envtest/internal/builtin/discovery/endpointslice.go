// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/service"
)

func defaultEndpointSlice(slice *discoveryv1.EndpointSlice) {
	kind.Each(slice.Ports, func(p *discoveryv1.EndpointPort) {
		kind.Missing(&p.Name, "")
		kind.Missing(&p.Protocol, corev1.ProtocolTCP)
	})
}

// prepareEndpointSlice drops what only the old version has.
func prepareEndpointSlice(_ context.Context, slice, _ *discoveryv1.EndpointSlice) {
	kind.Each(slice.Endpoints, func(e *discoveryv1.Endpoint) { e.DeprecatedTopology = nil })
}

func DiscoveryKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Resource: "endpointslices",
		Rules: kind.Rules{Generation: true, CountsLabels: true},
		Hooks: kind.Hooks{Defaults: kind.Typed(defaultEndpointSlice), Prepare: kind.TypedPrepare(prepareEndpointSlice), Validate: kind.TypedCheck(validateEndpointSlice)},
		Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnEndpointSlice)},
		Table: kind.Show("AddressType,Ports,Endpoints,Age", endpointSliceCells),
	}}
}

func endpointSliceCells(slice *discoveryv1.EndpointSlice) []any {
	more := func(n int) string { return fmt.Sprintf(" + %d more...", n) }
	var ports, addresses []string
	for _, port := range slice.Ports {
		if port.Port != nil {
			ports = append(ports, strconv.Itoa(int(*port.Port)))
		} else {
			ports = append(ports, kind.Value(port.Name, "*"))
		}
	}
	for i := range slice.Endpoints {
		addresses = append(addresses, slice.Endpoints[i].Addresses...)
	}
	return []any{string(slice.AddressType), kind.Or(kind.SomeOf(ports, more), "<unset>"), kind.Or(kind.SomeOf(addresses, more), "<unset>"), kind.AgeOf(slice)}
}

// The rules are those of kube-apiserver's pkg/apis/networking/validation and pkg/apis/discovery/validation.

// The most that one EndpointSlice can have.
const (
	mostEndpoints = 1000
	mostAddresses = 100
	mostPorts     = 20000
	mostHints     = 8
	mostTopology  = 16
)

func validateEndpointSlice(slice, old *discoveryv1.EndpointSlice) field.ErrorList {
	var f kind.Findings
	family := field.NewPath("addressType")
	kind.Choice(&f, slice.AddressType, family, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)
	if old != nil {
		f.Add(kind.Frozen(slice.AddressType, old.AddressType, family))
	}
	same := old != nil && apiequality.Semantic.DeepEqual(slice.Endpoints, old.Endpoints)
	f.Add(kind.TooMany(len(slice.Endpoints), mostEndpoints, field.NewPath("endpoints")))
	for i := range slice.Endpoints {
		if same {
			break
		}
		checkEndpoint(&f, &slice.Endpoints[i], slice.AddressType, field.NewPath("endpoints").Index(i))
	}
	f.Add(kind.TooMany(len(slice.Ports), mostPorts, field.NewPath("ports")))
	names := sets.New[string]()
	for i, port := range slice.Ports {
		at := field.NewPath("ports").Index(i)
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			f.Label(name, at.Child("name"))
		}
		f.Unique(name, names, at.Child("name"))
		if f.Need(port.Protocol != nil, at.Child("protocol")); port.Protocol != nil {
			kind.Known(&f, *port.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
		if port.AppProtocol != nil {
			f.Messages(validation.IsQualifiedName(*port.AppProtocol), *port.AppProtocol, at.Child("appProtocol"))
		}
	}
	return f.List
}

func checkEndpoint(f *kind.Findings, e *discoveryv1.Endpoint, family discoveryv1.AddressType, at *field.Path) {
	addresses := at.Child("addresses")
	f.Need(len(e.Addresses) > 0, addresses)
	f.Add(kind.TooMany(len(e.Addresses), mostAddresses, addresses))
	for i, address := range e.Addresses {
		service.CheckEndpointAddress(f, address, family, addresses, addresses.Index(i))
	}
	if e.NodeName != nil {
		f.Messages(apivalidation.NameIsDNSSubdomain(*e.NodeName, false), *e.NodeName, at.Child("nodeName"))
	}
	topology := at.Child("deprecatedTopology")
	f.Add(kind.TooMany(len(e.DeprecatedTopology), mostTopology, topology))
	f.Add(metavalidation.ValidateLabels(e.DeprecatedTopology, topology))
	if e.Hostname != nil {
		f.Label(*e.Hostname, at.Child("hostname"))
	}
	if e.Hints == nil {
		return
	}
	zones, nodes := sets.New[string](), sets.New[string]()
	f.Add(kind.TooMany(len(e.Hints.ForZones), mostHints, at.Child("hints", "forZones")))
	for i, zone := range e.Hints.ForZones {
		here := at.Child("hints", "forZones").Index(i).Child("name")
		f.Unique(zone.Name, zones, here)
		f.Messages(validation.IsValidLabelValue(zone.Name), zone.Name, here)
	}
	f.Add(kind.TooMany(len(e.Hints.ForNodes), mostHints, at.Child("hints", "forNodes")))
	for i, node := range e.Hints.ForNodes {
		here := at.Child("hints", "forNodes").Index(i).Child("name")
		f.Unique(node.Name, nodes, here)
		f.Messages(apivalidation.NameIsDNSSubdomain(node.Name, false), node.Name, here)
	}
}

func warnEndpointSlice(w *kind.Warnings, slice, _ *discoveryv1.EndpointSlice) {
	w.SayIf(w.Created && slice.AddressType == discoveryv1.AddressTypeFQDN, "spec.addressType: FQDN endpoints are deprecated")
}
