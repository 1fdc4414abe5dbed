// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builtin has the built-in kinds of the API server: every group of kube-apiserver's default set
// in its v1, and autoscaling in its v2 too. Each group has a package below, package admission has their plugins.
//
// # One table
//
// Each API group is a package here. It has a row for each of its kinds, with the rules, defaults, warnings and columns of the kind.
// A row names what is special; package kind has the common part. This package puts the rows into one table, and makes the scheme
// and the groups of a server from it.
//
// To add a kind, add a row to kinds.go of its group, with its defaults, checks and columns; a sample to builtin_samples_test.go of
// envtest; and what the real server says of it to served.txt and answers.txt in testdata of envtest.
//
// To add a group, add its package to kinds.go and to the table of rooms in tarn_test.go, its types to both lists of buildScheme and to
// the inputs of the generator in openapi/doc.go (and generate), its priority to catalog/priorities.go and to the list of
// aggregation_test.go.
//
// The types are those of k8s.io/api. They are stored, admitted and served as they are: the scheme registers each as the
// internal version of its group too. Only events have two forms, one in each of their API groups.
//
// # What is as on a kube-apiserver
//
// Metadata and names are checked; generation, status and their reset work as documented for each kind; defaults are filled
// for the kinds' own fields; namespaces terminate and are finalized; Pods on a node are deleted gracefully; Services get
// addresses and node ports, Jobs a selector; Secrets fold stringData; immutable content, selectors, role references, Pod
// specs and claims stay what they are; scale, pods/binding, pods/eviction, pods/ephemeralcontainers and pods/resize are
// served; the admission plugins LimitRanger, TaintNodesByCondition, PodSecurity, Priority, DefaultTolerationSeconds,
// DefaultStorageClass, StorageObjectInUseProtection, OwnerReferencesPermissionEnforcement, PersistentVolumeClaimResize,
// RuntimeClass, DefaultIngressClass and those of certificates (Kinds.Admission, Kinds.PodSecurity, OwnerReferences) work before webhooks do, and
// ResourceQuota (Kinds.ResourceQuota) after them. The specs of envtest check this for every row, and pass on a kube-apiserver
// too.
//
// # What is not
//
//   - Nothing acts by itself: as with a kube-apiserver alone, no controller finalizes namespaces, collects garbage, makes
//     Pods of Deployments or removes the finalizers of volumes.
//   - Validation is written anew, and compared with that of a kube-apiserver by a corpus of requests (TestCorpus of envtest).
//     What differs is in docs/fidelity.md: most of all, resource.k8s.io is checked less.
//   - Nothing follows from matchLabelKeys.
//   - The admission plugins ServiceAccount and PodTopologyLabels do nothing here.
//   - Services are IPv4 only and get the lowest free address from 10.0.0.16 on.
//   - pods/log, exec, attach, portforward and proxy, nodes/proxy and services/proxy lead to the kubelets and Pods that a test
//     runs, if any. A WebSocket is passed on to a kubelet, and not translated to SPDY.
package builtin
