// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

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

// warnings collects what is right in an object and yet better done otherwise.
type warnings struct {
	list []string
	// created says that the object is new, changed that it is new or has another generation.
	created, changed bool
}

// warnHooks say what a server warns of in objects of one kind that are valid. Each may be missing.
type warnHooks struct {
	object func(obj, old runtime.Object) []string // old is nil on create
	status func(obj, old runtime.Object) []string // in the status subresource
	delete string                                 // said of each DELETE without a propagation policy
}

// typedWarn turns a function over a concrete type into such a hook.
func typedWarn[T runtime.Object](f func(w *warnings, obj, old T)) func(obj, old runtime.Object) []string {
	return func(obj, old runtime.Object) []string {
		w := warnings{created: old == nil}
		w.changed = w.created || generationOf(obj) != generationOf(old)
		f(&w, mustBe[T](obj), optional[T](old))
		return w.list
	}
}

// say takes a warning that names no field, or names it otherwise.
func (w *warnings) say(format string, args ...any) {
	w.list = append(w.list, fmt.Sprintf(format, args...))
}

// sayIf does so under a condition.
func (w *warnings) sayIf(given bool, format string, args ...any) {
	if given {
		w.say(format, args...)
	}
}

// add takes a warning about a field.
func (w *warnings) add(at *field.Path, format string, args ...any) {
	w.say("%s: "+format, append([]any{at}, args...)...)
}

// label wants a new object to have a DNS label as its name, because of what the name is used in.
func (w *warnings) label(name, usedIn string) {
	if messages := validation.IsDNS1123Label(name); w.created && len(messages) > 0 {
		w.say("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", usedIn, messages)
	}
}

// outdatedAnnotations warns of outdated ones, each with what it has to say.
func (w *warnings) outdatedAnnotations(annotations map[string]string, at *field.Path, outdated ...[2]string) {
	for _, o := range outdated {
		if _, ok := annotations[o[0]]; ok {
			w.add(at.Child("metadata", "annotations").Key(o[0]), "%s", o[1])
		}
	}
}

// ip warns of an address that may be read in more than one way, or written in another one.
func (w *warnings) ip(address string, at *field.Path) {
	if address != "" {
		w.list = append(w.list, validation.GetWarningsForIP(at, address)...)
	}
}

func (w *warnings) ips(addresses []string, at *field.Path) {
	for i, address := range addresses {
		w.ip(address, at.Index(i))
	}
}

// cidr warns of such a range of addresses, and of one that names an address within it.
func (w *warnings) cidr(addresses string, at *field.Path) {
	w.list = append(w.list, validation.GetWarningsForCIDR(at, addresses)...)
}

func (w *warnings) cidrs(ranges []string, at *field.Path) {
	for i, addresses := range ranges {
		w.cidr(addresses, at.Index(i))
	}
}

// wholeBytes warns of amounts of memory or storage that are no number of bytes.
func (w *warnings) wholeBytes(amounts corev1.ResourceList, at *field.Path, names ...corev1.ResourceName) {
	for _, name := range names {
		if amount, ok := amounts[name]; ok && amount.MilliValue()%1000 != 0 {
			w.add(at.Key(string(name)), "fractional byte value %q is invalid, must be an integer", amount.String())
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

// nodeLabel warns of an outdated label at the path of its own.
func (w *warnings) nodeLabel(key string, at *field.Path) {
	if text, ok := outdatedNodeLabels[key]; ok {
		w.add(at, "%s", text)
	}
}

// nodeKey warns of an outdated label that is the value of a field.
func (w *warnings) nodeKey(key string, at *field.Path) {
	if text, ok := outdatedNodeLabels[key]; ok {
		w.add(at, "%s is %s", key, text)
	}
}

// nodeTerm warns of outdated labels in a term that selects nodes.
func (w *warnings) nodeTerm(term *corev1.NodeSelectorTerm, at *field.Path) {
	for i, e := range term.MatchExpressions {
		w.nodeKey(e.Key, at.Child("matchExpressions").Index(i).Child("key"))
	}
}

// warnStaticName is for the configurations of admission, which a kube-apiserver can also read from files.
func warnStaticName(obj, _ runtime.Object) []string {
	const suffix = ".static.k8s.io"
	var w warnings
	m, err := meta.Accessor(obj)
	w.sayIf(err == nil && strings.HasSuffix(m.GetName(), suffix),
		"metadata.name: names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", suffix)
	return w.list
}
