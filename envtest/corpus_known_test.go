// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// knownDifference explains differences between the two servers.
type knownDifference struct {
	pattern *regexp.Regexp // of the line that says what differs
	what    string         // as a row of docs/fidelity.md says it
	why     string
}

// knownDifferences has an entry for every difference that is left. An entry that explains nothing fails the run. The first
// entry that matches counts.
var knownDifferences = []knownDifference{
	{regexp.MustCompile(`ownerReferences that is empty`), "the fields that are named when an owner reference is empty",
		"the libraries are those of v1.37, which name them by index"},
	{regexp.MustCompile(`^deployments .*deprecated.deployment.rollback.to":""}.*: metadata.generation: 1, not 2`), "Deployments: an empty annotation `deprecated.deployment.rollback.to` counts as a change",
		"it is dropped before that"},
	{regexp.MustCompile(`^serviceaccounts put secrets.* after .*: metadata.managedFields: .*, not null$`), "ServiceAccounts: nobody owns the fields of one with Secrets that have no name",
		"the libraries are those of v1.37, which can tell such Secrets apart"},
	{regexp.MustCompile(`^(resource(slices|claims|claimtemplates)|deviceclasses) `), "resource.k8s.io: CEL of selectors, node selectors, counters, binding conditions, extended resources, admin access",
		"not checked: their library is not used here"},
	{regexp.MustCompile(`^(self|local)?subjectaccessreviews .*(fieldSelector|labelSelector)`), "Reviews of access: which fields of a wrong selector are named",
		"only that it is wrong is checked"},
	{regexp.MustCompile(`^pods put of the status .*: ok, not 422`), "Pods: details of the status of containers, users, devices and conditions",
		"kubelets write them; they are not checked"},
	{regexp.MustCompile(`^pods put of the status status.nodeAllocatableResourceClaimStatuses`), "Pods: who owns `status.nodeAllocatableResourceClaimStatuses`",
		"the field is of a feature that is off, and is dropped on both"},
	{regexp.MustCompile(`^nodes put of the status status.declaredFeatures`), "Nodes: the names of declared features",
		"kubelets write them; they are not checked"},
	{regexp.MustCompile(`^nodes (create|create for pairs|put) spec.podCIDRs=.*InternalError`), "Nodes: an internal error beside wrong ranges of Pods",
		"the ranges are reported"},
	{regexp.MustCompile(`^(poddisruptionbudgets|validatingadmissionpolicies) put of the status status.conditions`), "which fields of a wrong condition are named",
		"the libraries are those of v1.37, which name other ones"},
	{regexp.MustCompile(`^(networkpolicies|(mutating|validating)webhookconfigurations) put \S+=\[\]( after .*)?: metadata.generation: 1, not 2`), "an empty list in place of none counts as a change of NetworkPolicies and webhook configurations",
		"here nothing changes, as for all other kinds"},
	{regexp.MustCompile(`^events get of a version that is none`), "Events: the answer to a `get` of a resource version that is none",
		"there is a watch cache before them here, which answers as it does for other kinds"},
	{regexp.MustCompile(`^endpointslices put endpoints\[0\].deprecatedTopology`), "EndpointSlices: a `deprecatedTopology` that is sent counts as a change",
		"it is dropped before that"},
	{regexp.MustCompile(`^pods create spec.runtimeClassName=""`), "Pods: a RuntimeClass without a name", "it is refused as a bad request; the real server fails"},
	{regexp.MustCompile(`^storageclasses (create|create for pairs|put) allowedTopologies`), "StorageClasses: an empty topology counts as a double of itself",
		"that is an oversight there"},
	{regexp.MustCompile(`^replicationcontrollers create from a prefix that is none`), "ReplicationControllers: the field of a wrong `generateName`",
		"it is reported as for all other kinds"},
}

// Where the table is in docs/fidelity.md.
const (
	fidelityPage  = "../docs/fidelity.md"
	fidelityBegin = "<!-- differences: begin -->\n"
	fidelityEnd   = "<!-- differences: end -->"
)

// fidelityTable is the table of the differences that are known.
func fidelityTable() string {
	var table strings.Builder
	table.WriteString("\n| what differs | why |\n|---|---|\n")
	for _, known := range knownDifferences {
		fmt.Fprintf(&table, "| %s | %s |\n", known.what, known.why)
	}
	table.WriteString("\n")
	return table.String()
}

// TestFidelityTable checks that docs/fidelity.md has the table of what differs, or writes it with TARN_WRITE_FIDELITY=true.
func TestFidelityTable(t *testing.T) {
	data, err := os.ReadFile(fidelityPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), fidelityBegin)
	_, after, closed := strings.Cut(rest, fidelityEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the table of differences", fidelityPage)
	}
	page := before + fidelityBegin + fidelityTable() + fidelityEnd + after
	if page == string(data) {
		return
	}
	if os.Getenv("TARN_WRITE_FIDELITY") != "true" {
		t.Fatalf("%s does not say what differs as knownDifferences does: TARN_WRITE_FIDELITY=true go test ./envtest -run TestFidelityTable writes it", fidelityPage)
	}
	if err := os.WriteFile(fidelityPage, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}
