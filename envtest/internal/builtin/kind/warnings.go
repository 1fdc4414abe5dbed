// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The texts of warnings are those of kube-apiserver.

// Warnings collects what is right in an object and yet better done otherwise.
type Warnings struct {
	list []string
	// Created says that the object is new, changed that it is new or has another generation.
	Created, Changed bool
}

// WarnHooks say what a server warns of in objects of one kind that are valid. Each may be missing.
type WarnHooks struct {
	Object func(obj, old runtime.Object) []string // old is nil on create
	Status func(obj, old runtime.Object) []string // in the status subresource
	Delete string                                 // said of each DELETE without a propagation policy
}

// TypedWarn turns a function over a concrete type into such a hook.
func TypedWarn[T runtime.Object](f func(w *Warnings, obj, old T)) func(obj, old runtime.Object) []string {
	return func(obj, old runtime.Object) []string {
		w := Warnings{Created: old == nil}
		w.Changed = w.Created || generationOf(obj) != generationOf(old)
		f(&w, MustBe[T](obj), Optional[T](old))
		return w.list
	}
}

// Say takes a warning that names no field, or names it otherwise.
func (w *Warnings) Say(format string, args ...any) {
	w.list = append(w.list, fmt.Sprintf(format, args...))
}

// SayIf does so under a condition.
func (w *Warnings) SayIf(given bool, format string, args ...any) {
	if given {
		w.Say(format, args...)
	}
}

// Add takes a warning about a field.
func (w *Warnings) Add(at *field.Path, format string, args ...any) {
	w.Say("%s: "+format, append([]any{at}, args...)...)
}

// Label wants a new object to have a DNS label as its name, because of what the name is used in.
func (w *Warnings) Label(name, usedIn string) {
	if messages := validation.IsDNS1123Label(name); w.Created && len(messages) > 0 {
		w.Say("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", usedIn, messages)
	}
}

// OutdatedAnnotations warns of outdated ones, each with what it has to say.
func (w *Warnings) OutdatedAnnotations(annotations map[string]string, at *field.Path, outdated ...[2]string) {
	for _, o := range outdated {
		if _, ok := annotations[o[0]]; ok {
			w.Add(at.Child("metadata", "annotations").Key(o[0]), "%s", o[1])
		}
	}
}

// IP warns of an address that may be read in more than one way, or written in another one.
func (w *Warnings) IP(address string, at *field.Path) {
	if address != "" {
		w.list = append(w.list, validation.GetWarningsForIP(at, address)...)
	}
}

func (w *Warnings) IPs(addresses []string, at *field.Path) {
	for i, address := range addresses {
		w.IP(address, at.Index(i))
	}
}

// CIDR warns of such a range of addresses, and of a range that names an address within it.
func (w *Warnings) CIDR(addresses string, at *field.Path) {
	w.list = append(w.list, validation.GetWarningsForCIDR(at, addresses)...)
}

func (w *Warnings) CIDRs(ranges []string, at *field.Path) {
	for i, addresses := range ranges {
		w.CIDR(addresses, at.Index(i))
	}
}

// WholeBytes warns of amounts of memory or storage that are no number of bytes.
func (w *Warnings) WholeBytes(amounts corev1.ResourceList, at *field.Path, names ...corev1.ResourceName) {
	for _, name := range names {
		if amount, ok := amounts[name]; ok && amount.MilliValue()%1000 != 0 {
			w.Add(at.Key(string(name)), "fractional byte value %q is invalid, must be an integer", amount.String())
		}
	}
}

// outdatedNodeLabels are labels of nodes with what a kube-apiserver says of them.
var outdatedNodeLabels = map[string]string{
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
}

// NodeLabel warns of an outdated label at the path of its own.
func (w *Warnings) NodeLabel(key string, at *field.Path) {
	if text, ok := outdatedNodeLabels[key]; ok {
		w.Add(at, "%s", text)
	}
}

// NodeKey warns of an outdated label that is the value of a field.
func (w *Warnings) NodeKey(key string, at *field.Path) {
	if text, ok := outdatedNodeLabels[key]; ok {
		w.Add(at, "%s is %s", key, text)
	}
}

// NodeTerm warns of outdated labels in a term that selects nodes.
func (w *Warnings) NodeTerm(term *corev1.NodeSelectorTerm, at *field.Path) {
	for i, e := range term.MatchExpressions {
		w.NodeKey(e.Key, at.Child("matchExpressions").Index(i).Child("key"))
	}
}

// WarnStaticName is for the configurations of admission, which a kube-apiserver can also read from files.
func WarnStaticName(obj, _ runtime.Object) []string {
	const suffix = ".static.k8s.io"
	var w Warnings
	m, err := meta.Accessor(obj)
	w.SayIf(err == nil && strings.HasSuffix(m.GetName(), suffix),
		"metadata.name: names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", suffix)
	return w.list
}

// InPodNames is what the name of a workload is used in.
const InPodNames = "Pod names and hostnames"
