// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"
	"fmt"
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

// servedFile is what a kube-apiserver v1.36.3 without flags says it serves, a line for each resource. It is written by
//
//	go run ./envtest/cmd/oracle -kubeconfig FILE &
//	TARN_ORACLE_KUBECONFIG=FILE TARN_WRITE_SERVED=true go test ./envtest -run TestServedAsByKubeAPIServer
const servedFile = "testdata/served.txt"

// TestServedAsByKubeAPIServer compares discovery with that of a real server: resources, verbs, short names, categories,
// kinds. What differs must be in docs/fidelity.md.
func TestServedAsByKubeAPIServer(t *testing.T) {
	data, err := os.ReadFile(servedFile)
	if err != nil {
		t.Fatal(err)
	}
	if kubeconfig := os.Getenv(oracleVariable); kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		theirs := strings.Join(servedLines(t, config), "\n") + "\n"
		if os.Getenv("TARN_WRITE_SERVED") == "true" {
			if err := os.WriteFile(servedFile, []byte(theirs), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if theirs != string(data) {
			t.Errorf("the real server serves other resources than %s says:\n%s", servedFile, theirs)
		}
		return
	}
	missing := notServed(t)
	ours := servedLines(t, envtest.Start(t).Config())
	for _, name := range missing {
		if slices.ContainsFunc(ours, func(l string) bool { return strings.HasPrefix(l, name+" ") }) {
			t.Errorf("docs/fidelity.md says that %s is not served", name)
		}
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		name := strings.Join(strings.Fields(line)[:2], " ")
		if !slices.Contains(ours, line) && !slices.Contains(missing, name) {
			i := slices.IndexFunc(ours, func(l string) bool { return strings.HasPrefix(l, name+" ") })
			if i < 0 {
				t.Errorf("%s is not served, and docs/fidelity.md does not say so", name)
				continue
			}
			t.Errorf("served is\n%s, want\n%s", ours[i], line)
		}
	}
	for _, line := range ours {
		if name := strings.Join(strings.Fields(line)[:2], " "); !strings.Contains(string(data), name+" ") {
			t.Errorf("kube-apiserver does not serve %s", name)
		}
	}
}

// servedLines lists the resources of a server, sorted: group version, resource, kind, scope, verbs, and the rest of what
// discovery says about each.
func servedLines(t *testing.T, config *rest.Config) []string {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, list := range lists {
		for _, r := range list.APIResources {
			slices.Sort(r.Verbs)
			r.StorageVersionHash = "" // names the release
			about, err := json.Marshal(map[string]any{
				"singular": r.SingularName, "short": r.ShortNames, "categories": r.Categories, "group": r.Group, "version": r.Version,
			})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("%s %s %s namespaced=%t %s %s",
				list.GroupVersion, r.Name, r.Kind, r.Namespaced, strings.Join(r.Verbs, ","), about))
		}
	}
	slices.Sort(lines)
	return lines
}

// notServed reads the table, which may be empty: a group version and a resource for each entry.
func notServed(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/fidelity.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, begins := strings.Cut(string(page), "<!-- not served: begin -->")
	table, _, ends := strings.Cut(after, "<!-- not served: end -->")
	if !begins || !ends {
		t.Fatal("docs/fidelity.md has no table of what is not served")
	}
	name := regexp.MustCompile("`([^`]+)`")
	var resources []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
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
	return resources
}
