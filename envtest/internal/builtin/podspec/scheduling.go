// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func (f *PodCheck) affinity(a *corev1.Affinity, at *field.Path) {
	if a == nil {
		return
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if node := a.NodeAffinity; node != nil {
		at := at.Child("nodeAffinity")
		if node.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			CheckNodeSelector(&f.Findings, node.RequiredDuringSchedulingIgnoredDuringExecution, true, at.Child(required))
		}
		for i := range node.PreferredDuringSchedulingIgnoredDuringExecution {
			term := &node.PreferredDuringSchedulingIgnoredDuringExecution[i]
			f.weight(term.Weight, at.Child(preferred).Index(i))
			checkNodeTerm(&f.Findings, &term.Preference, false, at.Child(preferred).Index(i).Child("preference"))
		}
	}
	terms := func(must []corev1.PodAffinityTerm, may []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range must {
			f.podTerm(&must[i], at.Child(required).Index(i))
		}
		for i := range may {
			f.weight(may[i].Weight, at.Child(preferred).Index(i))
			f.podTerm(&may[i].PodAffinityTerm, at.Child(preferred).Index(i).Child("podAffinityTerm"))
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
}

func (f *PodCheck) weight(weight int32, at *field.Path) {
	f.Invalid(weight < 1 || weight > 100, at.Child("weight"), weight, "must be in the range 1-100")
}

// CheckNodeSelector checks terms that select nodes. The values of preferences need not be values of labels.
func CheckNodeSelector(f *kind.Findings, s *corev1.NodeSelector, values bool, at *field.Path) {
	at = at.Child("nodeSelectorTerms")
	f.Need(len(s.NodeSelectorTerms) > 0, at)
	for i := range s.NodeSelectorTerms {
		checkNodeTerm(f, &s.NodeSelectorTerms[i], values, at.Index(i))
	}
}

func checkNodeTerm(f *kind.Findings, term *corev1.NodeSelectorTerm, values bool, at *field.Path) {
	for i := range term.MatchExpressions {
		checkNodeRequirement(f, &term.MatchExpressions[i], values, at.Child("matchExpressions").Index(i))
	}
	for i, r := range term.MatchFields {
		at := at.Child("matchFields").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			f.Need(len(r.Values) == 1, at.Child("values"))
		default:
			f.Invalid(true, at.Child("operator"), r.Operator, "not a valid selector operator")
		}
		if r.Key != metav1.ObjectNameField {
			f.Invalid(true, at.Child("key"), r.Key, "not a valid field selector key")
			continue
		}
		for j, value := range r.Values {
			f.Messages(apivalidation.NameIsDNSSubdomain(value, false), value, at.Child("values").Index(j))
		}
	}
}

func checkNodeRequirement(f *kind.Findings, r *corev1.NodeSelectorRequirement, values bool, at *field.Path) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		f.Need(len(r.Values) > 0, at.Child("values"))
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		f.Forbid(len(r.Values) > 0, at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		f.Need(len(r.Values) == 1, at.Child("values"))
	default:
		f.Invalid(true, at.Child("operator"), r.Operator, "not a valid selector operator")
	}
	f.Add(metavalidation.ValidateLabelName(r.Key, at.Child("key")))
	for i, value := range r.Values {
		if values {
			f.Messages(validation.IsValidLabelValue(value), value, at.Child("values").Index(i))
		}
	}
}

func (f *PodCheck) podTerm(term *corev1.PodAffinityTerm, at *field.Path) {
	f.Add(kind.LabelSelector(term.LabelSelector, at.Child("labelSelector")))
	f.Add(kind.LabelSelector(term.NamespaceSelector, at.Child("namespaceSelector")))
	for _, name := range term.Namespaces {
		f.Messages(apivalidation.ValidateNamespaceName(name, false), name, at.Child("namespace"))
	}
	f.labelKeys(term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector, at)
	f.Text(term.TopologyKey, at.Child("topologyKey"))
	f.Add(metavalidation.ValidateLabelName(term.TopologyKey, at.Child("topologyKey")))
}

// labelKeys checks the keys whose values of the Pod itself narrow a selector.
func (f *PodCheck) labelKeys(match, mismatch []string, selector *metav1.LabelSelector, at *field.Path) {
	for _, keys := range []struct {
		name string
		list []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		at := at.Child(keys.name)
		if len(keys.list) > 0 && selector == nil {
			f.Forbid(true, at, "must not be specified when labelSelector is not set")
			continue
		}
		for i, key := range keys.list {
			f.Add(metavalidation.ValidateLabelName(key, at.Index(i)))
		}
	}
	if selector != nil {
		// A kube-apiserver writes the keys into the selector, as expressions; a Pod with both says it
		// twice.
		twice := sets.New[string]()
		for key := range selector.MatchLabels {
			twice.Insert(key)
		}
		for _, expression := range selector.MatchExpressions {
			for i, key := range match {
				f.Invalid(key == expression.Key && twice.Has(key), at.Index(i), key, "exists in both matchLabelKeys and labelSelector")
			}
			twice.Insert(expression.Key)
		}
	}
	other := sets.New(mismatch...)
	for i, key := range match {
		f.Invalid(other.Has(key), at.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys")
	}
}

func CheckTolerations(f *kind.Findings, list []corev1.Toleration, at *field.Path) {
	for i := range list {
		t, at := &list[i], at.Index(i)
		if t.Key != "" {
			f.Add(metavalidation.ValidateLabelName(t.Key, at.Child("key")))
		}
		f.Invalid(t.Key == "" && t.Operator != corev1.TolerationOpExists, at.Child("operator"), t.Operator,
			"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		f.Invalid(t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute, at.Child("effect"), t.Effect,
			"effect must be 'NoExecute' when `tolerationSeconds` is set")
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			f.Messages(validation.IsValidLabelValue(t.Value), t.Value, at.Child("operator"))
		case corev1.TolerationOpExists:
			f.Invalid(t.Value != "", at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")
		default:
			kind.Known(f, t.Operator, at.Child("operator"), corev1.TolerationOpEqual, corev1.TolerationOpExists)
		}
		if t.Effect != "" {
			kind.Known(f, t.Effect, at.Child("effect"), corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		}
	}
}

func (f *PodCheck) topologySpread(list []corev1.TopologySpreadConstraint, at *field.Path) {
	for i := range list {
		c, at := &list[i], at.Index(i)
		f.Positive(int64(c.MaxSkew), at.Child("maxSkew"))
		f.Text(c.TopologyKey, at.Child("topologyKey"))
		kind.Known(&f.Findings, c.WhenUnsatisfiable, at.Child("whenUnsatisfiable"), corev1.DoNotSchedule, corev1.ScheduleAnyway)
		for _, other := range list[i+1:] {
			if other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable {
				f.List = append(f.List, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
				break
			}
		}
		if c.MinDomains != nil {
			f.Positive(int64(*c.MinDomains), at.Child("minDomains"))
			f.Invalid(c.WhenUnsatisfiable != corev1.DoNotSchedule, at.Child("minDomains"), strconv.Itoa(int(*c.MinDomains)),
				"can only use minDomains if whenUnsatisfiable=DoNotSchedule")
		}
		kind.Chosen(&f.Findings, c.NodeAffinityPolicy, at.Child("nodeAffinityPolicy"), corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor)
		kind.Chosen(&f.Findings, c.NodeTaintsPolicy, at.Child("nodeTaintsPolicy"), corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor)
		f.labelKeys(c.MatchLabelKeys, nil, c.LabelSelector, at)
		f.Add(kind.LabelSelector(c.LabelSelector, at.Child("labelSelector")))
	}
}
