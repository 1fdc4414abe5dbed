// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// kindsAtOnce is how many kinds of a namespace are looked at at the same time.
	kindsAtOnce = 8
	// finalizerEstimate is how long kube-controller-manager gives finalizers.
	finalizerEstimate = 15 * time.Second
)

// content finds and deletes what is in namespaces. It asks the API server, because what it does not find is lost.
type content struct {
	discovery *discovery.DiscoveryClient
	metadata  metadata.Interface
	live      client.Reader
}

// resource is a namespaced kind whose objects can be deleted.
type resource struct {
	schema.GroupVersionResource
	kind       string
	collection bool // may be deleted at once
	list       bool
}

func (r resource) gvk() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.kind) }

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// delete deletes what is in a namespace, and reports what remains. Pods go first, and nothing else until they are gone: they
// may need it to end.
func (c *content) delete(ctx context.Context, ns *corev1.Namespace) *report {
	r := &report{}
	resources := c.resources(ctx, r)
	first := slices.IndexFunc(resources, func(res resource) bool { return res.GroupVersionResource == pods })
	if first >= 0 {
		r.add(c.deleteKind(ctx, resources[first], ns))
		if r.remains() {
			return r
		}
		resources = slices.Delete(resources, first, first+1)
	}
	var group errgroup.Group
	group.SetLimit(kindsAtOnce)
	for _, res := range resources {
		group.Go(func() error {
			r.add(c.deleteKind(ctx, res, ns))
			return nil
		})
	}
	_ = group.Wait() // what fails is in the report
	return r
}

// resources asks discovery. The report has the groups that cannot be asked for now; the others are returned.
func (c *content) resources(ctx context.Context, r *report) []resource {
	lists, err := c.discovery.ServerPreferredNamespacedResourcesWithContext(ctx)
	r.discovery = err
	var resources []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			r.parsing = err
			continue
		}
		for _, res := range list.APIResources {
			if slices.Contains(res.Verbs, "delete") {
				resources = append(resources, resource{
					GroupVersionResource: gv.WithResource(res.Name), kind: res.Kind,
					collection: slices.Contains(res.Verbs, "deletecollection"), list: slices.Contains(res.Verbs, "list"),
				})
			}
		}
	}
	return resources
}

// deleteKind deletes the objects of one kind in a namespace.
func (c *content) deleteKind(ctx context.Context, res resource, ns *corev1.Namespace) remaining {
	left := remaining{resource: res}
	objects, err := c.list(ctx, res, ns.Name)
	if err != nil || res.list && len(objects) == 0 {
		left.err = err
		return left
	}
	left.found = len(objects) > 0
	if left.err = c.deleteObjects(ctx, res, ns.Name, objects); left.err != nil {
		return left
	}
	if objects, left.err = c.list(ctx, res, ns.Name); left.err != nil || len(objects) == 0 {
		return left
	}
	left.count(objects)
	if left.estimate, left.err = c.estimate(ctx, res, ns); left.err == nil && left.estimate == 0 {
		left.estimate = finalizerEstimate
		if len(left.finalizers) == 0 {
			left.estimate = 0
			left.err = fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", ns.Name, res.GroupVersionResource)
		}
	}
	return left
}

// deleteObjects deletes all objects of a kind in a namespace, or the given ones one by one. They go in the background: all
// that they own and that is in the namespace is deleted anyway.
func (c *content) deleteObjects(ctx context.Context, res resource, namespace string, objects []metav1.PartialObjectMetadata) error {
	kind := c.metadata.Resource(res.GroupVersionResource).Namespace(namespace)
	background := metav1.DeletionPropagation(metav1.DeletePropagationBackground)
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if res.collection {
		err := kind.DeleteCollection(ctx, options, metav1.ListOptions{})
		if err == nil || !isAbsent(err) {
			return err
		}
	}
	for i := range objects {
		if err := kind.Delete(ctx, objects[i].Name, options); err != nil && !isAbsent(err) {
			return err
		}
	}
	return nil
}

// list returns the objects of a kind in a namespace; none if the kind cannot be listed.
func (c *content) list(ctx context.Context, res resource, namespace string) ([]metav1.PartialObjectMetadata, error) {
	if !res.list {
		return nil, nil
	}
	list, err := c.metadata.Resource(res.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		if isAbsent(err) {
			return nil, nil
		}
		return nil, err
	}
	return list.Items, nil
}

// isAbsent says that an object or a kind is gone, or cannot be asked for in this way.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// estimate is how long what remains of a kind may take to go by itself: Pods have a grace period, from the deletion of the
// namespace on.
func (c *content) estimate(ctx context.Context, res resource, ns *corev1.Namespace) (time.Duration, error) {
	if res.GroupVersionResource != pods {
		return 0, nil
	}
	list := &corev1.PodList{}
	if err := c.live.List(ctx, list, client.InNamespace(ns.Name)); err != nil {
		return 0, err
	}
	var longest time.Duration
	for i := range list.Items {
		grace, phase := list.Items[i].Spec.TerminationGracePeriodSeconds, list.Items[i].Status.Phase
		if grace != nil && phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			longest = max(longest, time.Duration(*grace)*time.Second)
		}
	}
	if time.Since(ns.DeletionTimestamp.Time) >= longest {
		return 0, nil
	}
	return longest, nil
}
