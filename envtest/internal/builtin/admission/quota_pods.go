// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// podsCount is what a quota calls the number of Pods, with finished ones.
const podsCount corev1.ResourceName = "count/pods"

// computed are the resources that Pods use, each with its name as a request and as a limit. The plain name in a quota is a
// request too.
var computed = map[corev1.ResourceName][2]corev1.ResourceName{
	corev1.ResourceCPU:              {corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU},
	corev1.ResourceMemory:           {corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory},
	corev1.ResourceEphemeralStorage: {corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage},
}

// countsOfPods says whether a name in a quota is about Pods. The names of devices begin with
// "requests.".
func countsOfPods(name corev1.ResourceName) bool {
	if name == corev1.ResourcePods || name == podsCount || podspec.IsHugePages(name) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) {
		return true
	}
	for plain, names := range computed {
		if name == plain || slices.Contains(names[:], name) {
			return true
		}
	}
	device, ok := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return ok && (!podspec.IsNative(name) || strings.HasPrefix(device, resourcev1.ResourceDeviceClassPrefix))
}

// podUseChanges handles changes of the resources, and of whether the Pod ends by itself.
func podUseChanges(a admission.Attributes) bool {
	switch a.GetSubresource() {
	case "resize":
		return true
	case "":
		return endsByItself(kind.MustBe[*corev1.Pod](a.GetObject())) != endsByItself(kind.MustBe[*corev1.Pod](a.GetOldObject()))
	}
	return false
}

// podUse is what a Pod uses. A Pod that has ended, or should have, only counts as an object.
func podUse(obj runtime.Object) corev1.ResourceList {
	pod := kind.MustBe[*corev1.Pod](obj)
	use := corev1.ResourceList{podsCount: number(1)}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded || overdue(pod) {
		return use
	}
	maps.Copy(use, namedUse(podspec.PodRequests(pod), podspec.PodLimits(pod)))
	return use
}

// overdue says whether a Pod is still there after the time that it had to end.
func overdue(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	return time.Now().After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
}

// namedUse gives requests and limits the names that quotas have for them.
func namedUse(requests, limits corev1.ResourceList) corev1.ResourceList {
	use := corev1.ResourceList{corev1.ResourcePods: number(1)}
	for plain, names := range computed {
		if request, ok := requests[plain]; ok {
			use[plain], use[names[0]] = request, request
		}
		if limit, ok := limits[plain]; ok {
			use[names[1]] = limit
		}
	}
	for name, request := range requests {
		if podspec.IsHugePages(name) {
			use[name] = request
		}
		if podspec.IsHugePages(name) || podspec.IsExtended(name) || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
			use[corev1.DefaultResourceRequestsPrefix+name] = request
		}
	}
	return use
}

// podDemands refuses a Pod with a container that does not ask for processors or memory that a quota counts. A Pod that says it
// for all of its containers need not.
func podDemands(counted []corev1.ResourceName, obj runtime.Object) error {
	spec := &kind.MustBe[*corev1.Pod](obj).Spec
	if spec.Resources != nil && (len(podspec.WholePod(spec.Resources.Requests)) > 0 || len(podspec.WholePod(spec.Resources.Limits)) > 0) {
		return nil
	}
	lack := map[corev1.ResourceName][]string{}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		kind.Each(containers, func(c *corev1.Container) {
			use := namedUse(c.Resources.Requests, c.Resources.Limits)
			for _, name := range counted {
				if _, said := use[name]; !said && mustBeSaid(name) {
					lack[name] = append(lack[name], c.Name)
				}
			}
		})
	}
	if len(lack) == 0 {
		return nil
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(lack)) {
		slices.Sort(lack[name])
		said = append(said, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Compact(lack[name]), ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(said, "; "))
}

// mustBeSaid is true of processors and memory: kube-apiserver has no such rule for other resources.
func mustBeSaid(name corev1.ResourceName) bool {
	for _, plain := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if names := computed[plain]; name == plain || slices.Contains(names[:], name) {
			return true
		}
	}
	return false
}

func endsByItself(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

func podInScope(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	pod := kind.MustBe[*corev1.Pod](obj)
	class := pod.Status.QOSClass
	if class == "" {
		class = core.QosClass(pod)
	}
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return endsByItself(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !endsByItself(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return class == corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return class != corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopePriorityClass:
		var classes []string
		if pod.Spec.PriorityClassName != "" {
			classes = []string{pod.Spec.PriorityClassName}
		}
		return selects(scope, classes)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return pod.Spec.Affinity != nil && looksElsewhere(pod.Spec.Affinity), nil
	}
	return false, nil
}

// looksElsewhere says whether affinity to Pods of other namespaces is asked for.
func looksElsewhere(affinity *corev1.Affinity) bool {
	elsewhere := func(term corev1.PodAffinityTerm) bool {
		return len(term.Namespaces) > 0 || term.NamespaceSelector != nil
	}
	weighted := func(term corev1.WeightedPodAffinityTerm) bool { return elsewhere(term.PodAffinityTerm) }
	to, from := affinity.PodAffinity, affinity.PodAntiAffinity
	return to != nil && (slices.ContainsFunc(to.RequiredDuringSchedulingIgnoredDuringExecution, elsewhere) ||
		slices.ContainsFunc(to.PreferredDuringSchedulingIgnoredDuringExecution, weighted)) ||
		from != nil && (slices.ContainsFunc(from.RequiredDuringSchedulingIgnoredDuringExecution, elsewhere) ||
			slices.ContainsFunc(from.PreferredDuringSchedulingIgnoredDuringExecution, weighted))
}
