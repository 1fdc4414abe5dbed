// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// signingRequest is a certificate request of a fresh key in base64, as its JSON form has it.
func signingRequest() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// platformSamples are of the kinds that describe nodes, devices, certificates, and the server itself.
func platformSamples() []sample {
	device := func(name string) schema.GroupVersionResource { return resource("resource.k8s.io", "v1", name) }
	flow := func(name string) schema.GroupVersionResource {
		return resource("flowcontrol.apiserver.k8s.io", "v1", name)
	}
	request := `{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.example.com"}}]}}`
	return []sample{
		{resource: resource("node.k8s.io", "v1", "runtimeclasses"), kind: "RuntimeClass", cluster: true, content: `{"handler":"runc"}`,
			change: `{"overhead":{"podFixed":{"cpu":"10m"}}}`},
		{resource: resource("storage.k8s.io", "v1", "volumeattributesclasses"), kind: "VolumeAttributesClass", cluster: true,
			content: `{"driverName":"csi.example.com","parameters":{"iops":"100"}}`, change: relabel},
		{resource: resource("storage.k8s.io", "v1", "csistoragecapacities"), kind: "CSIStorageCapacity",
			content: `{"storageClassName":"fast","capacity":"1Gi"}`, change: `{"capacity":"2Gi"}`},
		{resource: resource("networking.k8s.io", "v1", "servicecidrs"), kind: "ServiceCIDR", cluster: true,
			content: `{"spec":{"cidrs":["10.77.0.0/24"]}}`, change: relabel,
			status: `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Tested","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
		{resource: resource("networking.k8s.io", "v1", "ipaddresses"), kind: "IPAddress", cluster: true, name: "10.77.0.9",
			content: `{"spec":{"parentRef":{"resource":"services","namespace":"default","name":"nobody"}}}`, change: relabel},
		{resource: device("deviceclasses"), kind: "DeviceClass", cluster: true, content: `{"spec":{}}`, counted: true,
			change: `{"spec":{"selectors":[{"cel":{"expression":"device.driver == \"gpu.example.com\""}}]}}`},
		{resource: device("resourceclaims"), kind: "ResourceClaim", content: `{"spec":` + request + `}`, change: relabel,
			status: `{"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"gpu.example.com","pool":"node","device":"gpu-0"}]}}}}`},
		{resource: device("resourceclaimtemplates"), kind: "ResourceClaimTemplate", content: `{"spec":{"spec":` + request + `}}`, change: relabel},
		{resource: device("resourceslices"), kind: "ResourceSlice", cluster: true, counted: true,
			content: `{"spec":{"driver":"gpu.example.com","nodeName":"node","pool":{"name":"node","generation":1,"resourceSliceCount":1},"devices":[{"name":"gpu-0"}]}}`,
			change:  `{"spec":{"devices":[{"name":"gpu-0"},{"name":"gpu-1"}]}}`},
		{resource: resource("apiregistration.k8s.io", "v1", "apiservices"), kind: "APIService", cluster: true, name: "v1.tarn.example.com",
			content: `{"spec":{"group":"tarn.example.com","version":"v1","groupPriorityMinimum":10,"versionPriority":10}}`,
			change:  `{"spec":{"versionPriority":11}}`,
			status: `{"status":{"conditions":[{"type":"Available","status":"True","reason":"Local","message":"Local APIServices are always available","lastTransitionTime":"2026-01-01T00:00:00Z"},` +
				`{"type":"Tested","status":"True","reason":"Tested","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
		{resource: flow("flowschemas"), kind: "FlowSchema", cluster: true, counted: true,
			content: `{"spec":{"priorityLevelConfiguration":{"name":"workload-low"},"matchingPrecedence":9000}}`,
			change:  `{"spec":{"matchingPrecedence":9001}}`, status: `{"status":{"conditions":[{"type":"Tested","status":"True"}]}}`},
		{resource: flow("prioritylevelconfigurations"), kind: "PriorityLevelConfiguration", cluster: true, counted: true,
			content: `{"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject"}}}}`,
			change:  `{"spec":{"limited":{"nominalConcurrencyShares":2}}}`, status: `{"status":{"conditions":[{"type":"Tested","status":"True"}]}}`},
		{resource: resource("certificates.k8s.io", "v1", "certificatesigningrequests"), kind: "CertificateSigningRequest", cluster: true,
			content: `{"spec":{"signerName":"example.com/signer","usages":["client auth"],"request":"` + signingRequest() + `"}}`,
			change:  relabel, status: `{"status":{"conditions":[{"type":"Failed","status":"True"}]}}`},
		{resource: resource("autoscaling", "v1", "horizontalpodautoscalers"), kind: "HorizontalPodAutoscaler",
			content: `{"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"sample","apiVersion":"apps/v1"}}}`,
			change:  `{"spec":{"targetCPUUtilizationPercentage":50}}`, status: `{"status":{"currentReplicas":1,"desiredReplicas":1}}`},
	}
}
