// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// limitRangerAnnotation says what the plugin LimitRanger has set in a Pod.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// limitRanges is the plugin LimitRanger. It sees a LimitRange that was created just before the Pod. The rules are those of kube-apiserver's
// plugin/pkg/admission/limitranger.
type limitRanges struct{ store *kind.Store }

// items returns the limits of one type in the namespace of a request.
func (l limitRanges) items(ctx context.Context, a admission.Attributes) ([]corev1.LimitRange, error) {
	list, err := kind.ListIn[*corev1.LimitRangeList](ctx, l.store, a.GetNamespace())
	if err != nil {
		return nil, fmt.Errorf("look up the limit ranges of namespace %s: %w", a.GetNamespace(), err)
	}
	return list.Items, nil
}

// fill gives the containers of a new Pod the requests and limits that they do not have.
func (l limitRanges) fill(ctx context.Context, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return nil
	}
	ranges, err := l.items(ctx, a)
	if err != nil {
		return err
	}
	pod := kind.MustBe[*corev1.Pod](a.GetObject())
	for i := range ranges {
		requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
		for _, item := range ranges[i].Spec.Limits {
			if item.Type == corev1.LimitTypeContainer {
				maps.Copy(requests, item.DefaultRequest)
				maps.Copy(limits, item.Default)
			}
		}
		var said []string
		kind.Each(pod.Spec.Containers, func(c *corev1.Container) { said = append(said, fillContainer(c, requests, limits, "container")...) })
		kind.Each(pod.Spec.InitContainers, func(c *corev1.Container) {
			said = append(said, fillContainer(c, requests, limits, "init container")...)
		})
		if len(said) > 0 {
			pod.Annotations = kind.Merged(pod.Annotations, map[string]string{limitRangerAnnotation: "LimitRanger plugin set: " + strings.Join(said, "; ")})
		}
	}
	return nil
}

func fillContainer(c *corev1.Container, requests, limits corev1.ResourceList, what string) []string {
	var said []string
	for _, side := range []struct {
		name     string
		list     *corev1.ResourceList
		defaults corev1.ResourceList
	}{{"request", &c.Resources.Requests, requests}, {"limit", &c.Resources.Limits, limits}} {
		var set []string
		for name, value := range side.defaults {
			if _, ok := (*side.list)[name]; ok {
				continue
			}
			if *side.list == nil {
				*side.list = corev1.ResourceList{}
			}
			(*side.list)[name] = value.DeepCopy()
			set = append(set, string(name))
		}
		if len(set) > 0 {
			slices.Sort(set)
			said = append(said, fmt.Sprintf("%s %s for %s %s", strings.Join(set, ", "), side.name, what, c.Name))
		}
	}
	return said
}

// checkPod refuses a new Pod that is out of limits.
func (l limitRanges) checkPod(ctx context.Context, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return nil
	}
	pod := kind.MustBe[*corev1.Pod](a.GetObject())
	return l.check(ctx, a, func(item *corev1.LimitRangeItem) []error {
		var errs []error
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range containers {
					errs = append(errs, outOfLimits(item, containers[i].Resources.Requests, containers[i].Resources.Limits)...)
				}
			}
		case corev1.LimitTypePod:
			requests := podspec.ContainerRequests(&pod.Spec)
			limits := podspec.SumContainers(&pod.Spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
			if pod.Spec.Resources != nil {
				maps.Copy(requests, pod.Spec.Resources.Requests)
				maps.Copy(limits, pod.Spec.Resources.Limits)
			}
			errs = outOfLimits(item, requests, limits)
		}
		return errs
	})
}

// checkClaim refuses a claim that is out of limits.
func (l limitRanges) checkClaim(ctx context.Context, a admission.Attributes) error {
	pvc := kind.MustBe[*corev1.PersistentVolumeClaim](a.GetObject())
	return l.check(ctx, a, func(item *corev1.LimitRangeItem) []error {
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			return nil
		}
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(item.Min)) {
			errs = append(errs, tooLittle(item.Type, name, item.Min[name], pvc.Spec.Resources.Requests, nil)...)
		}
		for _, name := range slices.Sorted(maps.Keys(item.Max)) {
			most, asked := item.Max[name], pvc.Spec.Resources.Requests
			switch request, ok := asked[name]; {
			case !ok:
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, most.String()))
			case request.Cmp(most) > 0:
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, most.String(), request.String()))
			}
		}
		return errs
	})
}

func (l limitRanges) check(ctx context.Context, a admission.Attributes, of func(*corev1.LimitRangeItem) []error) error {
	ranges, err := l.items(ctx, a)
	if err != nil {
		return err
	}
	for i := range ranges {
		var errs []error
		for j := range ranges[i].Spec.Limits {
			errs = append(errs, of(&ranges[i].Spec.Limits[j])...)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

// outOfLimits says which limits requests and limits exceed.
func outOfLimits(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		errs = append(errs, tooLittle(item.Type, name, item.Min[name], requests, limits)...)
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		most := item.Max[name]
		request, asked := requests[name]
		limit, limited := limits[name]
		switch {
		case !limited:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, item.Type, most.String()))
		case limit.Cmp(most) > 0:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, item.Type, most.String(), limit.String()))
		case asked && request.Cmp(most) > 0:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, most.String(), request.String()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		if err := ratioAbove(item.Type, name, item.MaxLimitRequestRatio[name], requests[name], limits[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func tooLittle(kind corev1.LimitType, name corev1.ResourceName, least resource.Quantity, requests, limits corev1.ResourceList) []error {
	request, asked := requests[name]
	limit, limited := limits[name]
	var errs []error
	switch {
	case !asked:
		errs = append(errs, fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, kind, least.String()))
	case request.Cmp(least) < 0:
		errs = append(errs, fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, kind, least.String(), request.String()))
	case limited && limit.Cmp(least) < 0:
		errs = append(errs, fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, kind, least.String(), limit.String()))
	}
	return errs
}

func ratioAbove(kind corev1.LimitType, name corev1.ResourceName, most, request, limit resource.Quantity) error {
	const about = "%s max limit to request ratio per %s is %s, but "
	switch {
	case request.IsZero():
		return fmt.Errorf(about+"no request is specified or request is 0", name, kind, most.String())
	case limit.IsZero():
		return fmt.Errorf(about+"no limit is specified or limit is 0", name, kind, most.String())
	}
	if ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); ratio > most.AsApproximateFloat64() {
		return fmt.Errorf(about+"provided ratio is %f", name, kind, most.String(), ratio)
	}
	return nil
}
