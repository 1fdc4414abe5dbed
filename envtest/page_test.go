// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarn-dev/tarn/envtest"
)

// TestPageSaysWhatIsNotServed compares the table of docs/envtest.md with the server,
// and if there is a real one, the server and the table with that.
func TestPageSaysWhatIsNotServed(t *testing.T) {
	missing := notServed(t)
	ours := served(t, envtest.Start(t).Config())
	for _, resource := range missing {
		if slices.Contains(ours, resource) {
			t.Errorf("docs/envtest.md says that %s is not served", resource)
		}
	}
	kubeconfig := os.Getenv(oracleVariable)
	if kubeconfig == "" {
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	known := append(ours, missing...)
	theirs := served(t, config)
	for _, resource := range theirs {
		if !slices.Contains(known, resource) {
			t.Errorf("%s is not served, and docs/envtest.md does not say so", resource)
		}
	}
	for _, resource := range known {
		if !slices.Contains(theirs, resource) {
			t.Errorf("kube-apiserver does not serve %s", resource)
		}
	}
}

// notServed reads the table: a group version and a resource for each entry.
func notServed(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/envtest.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "<!-- not served: begin -->")
	table, _, _ := strings.Cut(after, "<!-- not served: end -->")
	name := regexp.MustCompile("`([^`]+)`")
	var resources []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		group := "v1"
		if named := name.FindStringSubmatch(cells[1]); named != nil {
			group = named[1]
		}
		for _, resource := range name.FindAllStringSubmatch(cells[2], -1) {
			resources = append(resources, group+" "+resource[1])
		}
	}
	if len(resources) == 0 {
		t.Fatal("docs/envtest.md has no table of what is not served")
	}
	return resources
}

// served asks a server what it serves: group versions and resources.
func served(t *testing.T, config *rest.Config) []string {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var resources []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			resources = append(resources, list.GroupVersion+" "+resource.Name)
		}
	}
	return resources
}
