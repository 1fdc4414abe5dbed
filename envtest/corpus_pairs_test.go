// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Annotations that mean something, with values that are good and wrong. A schema says nothing of them.
var knownAnnotations = []struct {
	resources string // separated by spaces; "templates" are all kinds that have Pods or templates of Pods
	key       string
	values    []string
}{
	{"templates", "controller.kubernetes.io/pod-deletion-cost", []string{"5", "-5", "+5", "05", "a", "", "9999999999"}},
	{"templates", "kubernetes.io/config.mirror", []string{"a", "b"}},
	{"templates", "seccomp.security.alpha.kubernetes.io/pod", []string{"runtime/default", "docker/default", "unconfined", "localhost/a", "localhost/../a", "a", ""}},
	{"templates", "container.seccomp.security.alpha.kubernetes.io/main", []string{"runtime/default", "localhost//a", "a"}},
	{"templates", "container.seccomp.security.alpha.kubernetes.io/other", []string{"unconfined", "a"}},
	{"templates", "container.apparmor.security.beta.kubernetes.io/main", []string{"runtime/default", "unconfined", "localhost/a", "localhost/", "localhost/ a", "a", ""}},
	{"templates", "container.apparmor.security.beta.kubernetes.io/other", []string{"runtime/default", "a"}},
	{"templates", "scheduler.alpha.kubernetes.io/tolerations", []string{
		`[{"key":"a","operator":"Exists"}]`, `[{"key":"a b"}]`, `[{"operator":"Other"}]`, `{}`, "a", "", "[]",
	}},
	{"templates", "scheduler.alpha.kubernetes.io/critical-pod", []string{"", "a"}},
	{"templates", "security.alpha.kubernetes.io/sysctls", []string{"a=b"}},
	{"templates", "security.alpha.kubernetes.io/unsafe-sysctls", []string{"a=b"}},
	{"templates", "pod.beta.kubernetes.io/init-containers", []string{"a"}},
	{"templates", "pod.alpha.kubernetes.io/init-containers", []string{"a"}},
	{"templates", "pod.beta.kubernetes.io/init-container-statuses", []string{"a"}},
	{"templates", "pod.alpha.kubernetes.io/init-container-statuses", []string{"a"}},
	{"daemonsets", "deprecated.daemonset.template.generation", []string{"5", "05", "0", "-1", "a", ""}},
	{"deployments", "deprecated.deployment.rollback.to", []string{"5", "05", "0", "-1", "a", ""}},
	{"deployments", "deployment.kubernetes.io/revision", []string{"5", "a"}},
	{"replicationcontrollers", "non-convertible.kubernetes.io/spec.selector", []string{"a"}},
	{"replicationcontrollers", "non-convertible.kubernetes.io/other", []string{"a"}},
	{"nodes", "scheduler.alpha.kubernetes.io/taints", []string{
		`[{"key":"a","effect":"NoSchedule"}]`, `[{"key":"a b","effect":"Other"}]`, `[{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoSchedule"}]`, "a", "", "[]",
	}},
	{"nodes", "scheduler.alpha.kubernetes.io/preferAvoidPods", []string{
		`{"preferAvoidPods":[{}]}`, `{"preferAvoidPods":[{"podSignature":{"podController":{"apiVersion":"v1","kind":"ReplicationController","name":"a","uid":"b","controller":true}}}]}`,
		`{"preferAvoidPods":[{"podSignature":{"podController":{"controller":false}}}]}`, "a", "", "{}",
	}},
	{"nodes", "node.alpha.kubernetes.io/ttl", []string{"5", "a"}},
	{"services", "service.kubernetes.io/topology-mode", []string{"Auto", "a"}},
	{"services", "service.kubernetes.io/topology-aware-hints", []string{"Auto", "a"}},
	{"services", "service.beta.kubernetes.io/load-balancer-source-ranges", []string{"10.0.0.0/8", "a", ""}},
	{"endpoints", "endpoints.kubernetes.io/over-capacity", []string{"truncated", "a"}},
	{"persistentvolumeclaims persistentvolumes", "volume.beta.kubernetes.io/storage-class", []string{"a", "b", "Not valid!", ""}},
	{"persistentvolumes", "volume.beta.kubernetes.io/mount-options", []string{"ro", ""}},
	{"persistentvolumes", "pv.kubernetes.io/provisioned-by", []string{"a"}},
	{"persistentvolumeclaims", "volume.kubernetes.io/selected-node", []string{"a", "Not valid!"}},
	{"ingresses", "kubernetes.io/ingress.class", []string{"a", "Not valid!", ""}},
	{"serviceaccounts", "kubernetes.io/enforce-mountable-secrets", []string{"true", "a"}},
	{"secrets", "kubernetes.io/service-account.name", []string{"default", "Not valid!"}},
	{"namespaces", "scheduler.alpha.kubernetes.io/node-selector", []string{"a=b", "a b"}},
	{"prioritylevelconfigurations", "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares", []string{"", "true"}},
	{"horizontalpodautoscalers", "autoscaling.alpha.kubernetes.io/metrics", []string{`[]`, "a"}},
	{"horizontalpodautoscalers", "autoscaling.alpha.kubernetes.io/behavior", []string{`{}`, "a"}},
	{"horizontalpodautoscalers", "autoscaling.alpha.kubernetes.io/conditions", []string{`[]`, "a"}},
	{"jobs", "batch.kubernetes.io/job-tracking", []string{"", "a"}},
}

// templatePaths lead to the metadata of Pods and of templates of Pods.
var templatePaths = map[string]string{
	"pods": "metadata", "podtemplates": "template metadata", "replicationcontrollers": "spec template metadata", "deployments": "spec template metadata",
	"replicasets": "spec template metadata", "statefulsets": "spec template metadata", "daemonsets": "spec template metadata", "jobs": "spec template metadata",
	"cronjobs": "spec jobTemplate spec template metadata",
}

// annotations makes an object with each value of the annotations that are known of its kind and without, and changes each of them
// to every other.
func (s *story) annotations() {
	for _, known := range knownAnnotations {
		path := "metadata"
		if known.resources == "templates" {
			path = templatePaths[s.resource.Resource]
		} else if !slices.Contains(strings.Fields(known.resources), s.resource.Resource) {
			continue
		}
		if path == "" {
			continue
		}
		var at []any
		for _, part := range strings.Fields(path + " annotations") {
			at = append(at, part)
		}
		changes := []change{{at, map[string]any{}}}
		for _, value := range known.values {
			changes = append(changes, change{at, map[string]any{known.key: value}})
		}
		for _, old := range changes {
			s.pair(old, changes)
		}
	}
}

// The variations that pairs draws of one kind: some to make objects with, and others to change each object
// to.
const (
	pairedLimit = 25
	pairsLimit  = 4
)

// pairs makes objects with variations, and changes each to other ones: to all of the same field, and to some of others.
func (s *story) pairs() {
	sample := s.object("varied")
	desired, _ := s.variationsOf()
	plain := change{[]any{"metadata", "labels"}, map[string]any{}}
	for key, value := range merged(clone(sample), raw(s.change)) {
		if c := (change{[]any{key}, value}); key != "metadata" && !reflect.DeepEqual(sample[key], value) {
			s.pair(plain, []change{c})
			s.pair(c, []change{{[]any{key}, sample[key]}})
		}
	}
	for _, i := range s.random.Perm(len(desired))[:min(pairedLimit, len(desired))] {
		old := desired[i]
		if old.String() == "globalDefault=true" { // counts for the Pods of other stories
			continue
		}
		next := []change{plain}
		for _, c := range desired {
			if slices.Equal(c.path, old.path) && !reflect.DeepEqual(c.value, old.value) {
				next = append(next, c)
			}
		}
		for range pairsLimit {
			next = append(next, desired[s.random.IntN(len(desired))])
		}
		s.pair(old, next)
	}
}

// pair makes an object with a change, and asks for others that would follow.
func (s *story) pair(old change, next []change) {
	n, w := s.schema()
	name := s.fresh()
	made := s.post("create for pairs "+old.String(), "", w.apply(s.object(name), n, old.path, old.value))
	if s.err != nil || made[0].refused() || made[1].refused() {
		return
	}
	base := s.last
	for _, c := range next {
		s.last = base
		s.varied(fmt.Sprintf("put %s after %s", c, old), name, dry, c)
	}
	s.delete("delete of a pair", name, "?gracePeriodSeconds=0", nil)
	s.patch("let a pair go", name, "", mergePatch, raw(`{"metadata":{"finalizers":null}}`))
}
