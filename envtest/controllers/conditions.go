// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// verdict is what a condition says.
type verdict struct {
	kind            corev1.NamespaceConditionType
	bad             bool
	reason, message string
}

// verdicts are those of a report, in the order of kube-controller-manager, and in its words.
func (r *report) verdicts() []verdict {
	return []verdict{
		r.discoveryVerdict(),
		r.parsingVerdict(),
		r.failureVerdict(),
		r.contentVerdict(),
		r.finalizersVerdict(),
	}
}

func (r *report) discoveryVerdict() verdict {
	const kind = corev1.NamespaceDeletionDiscoveryFailure
	if r.discovery == nil {
		return verdict{kind, false, "ResourcesDiscovered", "All resources successfully discovered"}
	}
	message := r.discovery.Error()
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); errors.As(r.discovery, &failed) {
		message = fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(failed.Groups), r.discovery)
	}
	return verdict{kind, true, "DiscoveryFailed", message}
}

func (r *report) parsingVerdict() verdict {
	const kind = corev1.NamespaceDeletionGVParsingFailure
	if r.parsing == nil {
		return verdict{kind, false, "ParsedGroupVersions", "All legacy kube types successfully parsed"}
	}
	return verdict{kind, true, "GroupVersionParsingFailed", r.parsing.Error()}
}

func (r *report) failureVerdict() verdict {
	const kind = corev1.NamespaceDeletionContentFailure
	errs := r.failures()
	if len(errs) == 0 {
		return verdict{kind, false, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"}
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return verdict{kind, true, "ContentDeletionFailed",
		fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(errs), sorted(texts))}
}

func (r *report) contentVerdict() verdict {
	const kind = corev1.NamespaceContentRemaining
	var texts []string
	for _, left := range r.left {
		if left.objects > 0 {
			texts = append(texts, fmt.Sprintf("%s.%s has %d resource instances", left.resource.Resource, left.resource.Group, left.objects))
		}
	}
	if len(texts) == 0 {
		return verdict{kind, false, "ContentRemoved", "All content successfully removed"}
	}
	return verdict{kind, true, "SomeResourcesRemain", "Some resources are remaining: " + sorted(texts)}
}

func (r *report) finalizersVerdict() verdict {
	const kind = corev1.NamespaceFinalizersRemaining
	counts := map[string]int{}
	for _, left := range r.left {
		for finalizer, n := range left.finalizers {
			counts[finalizer] += n
		}
	}
	if len(counts) == 0 {
		return verdict{kind, false, "ContentHasNoFinalizers", "All content-preserving finalizers finished"}
	}
	var texts []string
	for _, finalizer := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s in %d resource instances", finalizer, counts[finalizer]))
	}
	return verdict{kind, true, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: " + sorted(texts)}
}

// sorted joins texts in an order that does not change from one look to the next.
func sorted(texts []string) string {
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// setConditions writes what a report says into a status, and reports whether that is new.
func setConditions(status *corev1.NamespaceStatus, r *report) (changed bool) {
	for _, v := range r.verdicts() {
		condition := corev1.NamespaceCondition{
			Type: v.kind, Status: corev1.ConditionFalse, Reason: v.reason, Message: v.message, LastTransitionTime: metav1.Now(),
		}
		if v.bad {
			condition.Status = corev1.ConditionTrue
		}
		i := slices.IndexFunc(status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Type == v.kind })
		if i < 0 {
			status.Conditions = append(status.Conditions, condition)
			changed = true
			continue
		}
		old := &status.Conditions[i]
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		changed = changed || *old != condition
		*old = condition
	}
	return changed
}
