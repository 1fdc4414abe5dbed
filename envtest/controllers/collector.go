// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarn-dev/tarn/pkg/cache"
)

const (
	collectorName = "garbage-collector-controller"

	collectorWorkers = 8
	// collectorLastRetry is the longest time between two attempts that fail.
	collectorLastRetry = 30 * time.Second
	// unknownRetry is how long an object with an owner of an unknown kind is left alone, and an owner that is not cached.
	unknownRetry = 2 * time.Second
	// collectorTimeout bounds the wait for kinds that have not been listed yet. The error names them, and is logged.
	collectorTimeout = 30 * time.Second
	// settle gathers what happens to the dependents of an owner, which is looked at once for all of it.
	settle = 5 * time.Millisecond
)

// identity is an object, which may be gone, and what is done with it. The kind is in the version that is watched.
type identity struct {
	kind schema.GroupVersionKind
	types.NamespacedName
	uid  types.UID
	task task
}

func identityOf(kind schema.GroupVersionKind, obj client.Object) identity {
	return identity{kind: kind, NamespacedName: client.ObjectKeyFromObject(obj), uid: obj.GetUID()}
}

// task is what the collector does with an identity.
type task int

const (
	judge      task = iota // the object
	findOwner              // which is in the API server, until the cache shows it too
	judgeAgain             // all that has to do with the kind, without an object
	discover               // the kinds that are served, without a kind
)

// collector deletes objects whose owners are gone. It decides on what its cache shows, and each write of it applies only to the
// object that it has seen there, with the owners that this has. It asks the API server whether an owner is gone.
type collector struct {
	client client.Client
	kinds  *kinds
	owners *owners
}

func runCollector(ctx context.Context, cfg *rest.Config) error {
	// A read must not begin to cache a kind that was ended.
	options := cache.Options{DefaultTransform: withoutDescription, ReaderFailOnMissingInformer: true}
	return run(ctx, cfg, options, func(m ctrl.Manager) error {
		followed, err := newKinds(m)
		if err != nil {
			return err
		}
		r := &collector{client: m.GetClient(), kinds: followed, owners: newOwners(m, followed)}
		c, err := controller.NewTyped(collectorName, m, controller.TypedOptions[identity]{
			Reconciler: r, MaxConcurrentReconciles: collectorWorkers, ReconciliationTimeout: collectorTimeout,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[identity](firstRetry, collectorLastRetry),
		})
		if err != nil {
			return fmt.Errorf("make the controller: %w", err)
		}
		return c.Watch(source.TypedFunc[identity](followed.begin))
	})
}

// Reconcile implements reconcile.TypedReconciler.
func (r *collector) Reconcile(ctx context.Context, id identity) (reconcile.Result, error) {
	switch id.task {
	case findOwner:
		return r.findOwner(ctx, id)
	case discover:
		return r.kinds.discover(ctx), nil
	case judgeAgain:
		return reconcile.Result{}, r.judgeAgain(ctx, id.kind.GroupKind())
	default:
		return r.lookAt(ctx, id)
	}
}

// lookAt does what there is to do for an object, which may be gone.
func (r *collector) lookAt(ctx context.Context, id identity) (reconcile.Result, error) {
	obj := metadataOf(id.kind)
	err := r.client.Get(ctx, id.NamespacedName, obj)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), isNotFollowed(err), err == nil && obj.UID != id.uid:
		return reconcile.Result{}, r.lookAtDependents(ctx, id)
	case err != nil:
		return reconcile.Result{}, err
	}
	switch going := isGoing(obj); {
	case going && slices.Contains(obj.Finalizers, metav1.FinalizerOrphanDependents):
		err = r.orphan(ctx, obj)
	case going && slices.Contains(obj.Finalizers, metav1.FinalizerDeleteDependents):
		err = r.foreground(ctx, id, obj)
	case going || len(obj.OwnerReferences) == 0:
		return reconcile.Result{}, nil
	default:
		err = r.judge(ctx, obj)
	}
	switch {
	case errors.Is(err, errNeverCollected):
		klog.FromContext(ctx).V(1).Info("An object is not collected", "reason", err.Error())
		return reconcile.Result{}, nil
	case errors.Is(err, errUnknownKind):
		klog.FromContext(ctx).V(1).Info("An object is not collected for now", "reason", err.Error())
		return reconcile.Result{RequeueAfter: unknownRetry}, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: settle}, nil // the cache is about to show why
	}
	return reconcile.Result{}, err
}

// findOwner has the dependents of an owner looked at, if it has gone before the cache has shown it: for them it was there.
func (r *collector) findOwner(ctx context.Context, id identity) (reconcile.Result, error) {
	if owner := r.kinds.cached(ctx, id.kind.GroupKind(), id.NamespacedName); owner != nil && owner.UID == id.uid {
		return reconcile.Result{}, nil
	}
	owner := metadataOf(id.kind)
	err := r.owners.live.Get(ctx, id.NamespacedName, owner)
	switch {
	case err == nil && owner.UID == id.uid:
		return reconcile.Result{RequeueAfter: unknownRetry}, nil
	case err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.lookAtDependents(ctx, id)
}

// judgeAgain has all objects judged again that the events of a kind may have left out.
func (r *collector) judgeAgain(ctx context.Context, kind schema.GroupKind) error {
	for _, relation := range []string{ofKind(kind), waits} {
		if err := r.kinds.each(ctx, relation, r.lookLater); err != nil {
			return err
		}
	}
	return nil
}

func (r *collector) lookLater(obj *metav1.PartialObjectMetadata) error {
	r.kinds.look(identityOf(obj.GroupVersionKind(), obj))
	return nil
}

// lookAtDependents has the dependents of an object that is gone looked at.
func (r *collector) lookAtDependents(ctx context.Context, gone identity) error {
	return r.kinds.eachDependent(ctx, gone.uid, r.lookLater)
}

// orphan takes the owner out of the references of its dependents, and then lets it go.
func (r *collector) orphan(ctx context.Context, owner *metav1.PartialObjectMetadata) error {
	r.owners.orphaned(owner.UID)
	err := r.kinds.eachDependent(ctx, owner.UID, func(dependent *metav1.PartialObjectMetadata) error {
		return client.IgnoreNotFound(r.removeOwners(ctx, dependent, owner.UID))
	})
	if err != nil {
		return err
	}
	return r.removeFinalizer(ctx, owner, metav1.FinalizerOrphanDependents)
}

// foreground lets an owner go if no dependent blocks it, and has those that do looked at.
func (r *collector) foreground(ctx context.Context, id identity, owner *metav1.PartialObjectMetadata) error {
	blocked := false
	err := r.kinds.eachDependent(ctx, owner.UID, func(dependent *metav1.PartialObjectMetadata) error {
		blocked = blocked || blocks(dependent, id.uid)
		if !isGoing(dependent) {
			r.kinds.look(identityOf(dependent.GroupVersionKind(), dependent))
		}
		return nil
	})
	if err != nil || blocked {
		return err
	}
	return r.removeFinalizer(ctx, owner, metav1.FinalizerDeleteDependents)
}

// blocks reports whether a dependent holds its owner, while that is deleted in the foreground.
func blocks(dependent *metav1.PartialObjectMetadata, owner types.UID) bool {
	return slices.ContainsFunc(dependent.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && isBlocking(ref)
	})
}

func isBlocking(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// judge deletes an object if no owner keeps it, and takes away the references to owners that do not.
func (r *collector) judge(ctx context.Context, obj *metav1.PartialObjectMetadata) error {
	found, err := r.owners.classify(ctx, obj)
	switch {
	case err != nil:
		return err
	case len(found.orphaned) > 0:
		return r.removeOwners(ctx, obj, found.orphaned...)
	case found.solid && len(found.gone)+len(found.waiting) > 0:
		return r.removeOwners(ctx, obj, append(found.gone, found.waiting...)...)
	case found.solid:
		return nil
	}
	if len(found.waiting) == 0 {
		return r.delete(ctx, obj, policyOf(obj))
	}
	has, cycle, err := r.dependentsOf(ctx, obj.UID)
	switch {
	case err != nil:
		return err
	case !has:
		return r.delete(ctx, obj, policyOf(obj))
	case cycle:
		if err := r.unblockOwners(ctx, obj); err != nil {
			return err
		}
	}
	return r.delete(ctx, obj, metav1.DeletePropagationForeground)
}

// dependentsOf reports whether an object has dependents, and whether one of them waits for its own: then they may wait for each
// other.
func (r *collector) dependentsOf(ctx context.Context, owner types.UID) (has, waits bool, err error) {
	err = r.kinds.eachDependent(ctx, owner, func(dependent *metav1.PartialObjectMetadata) error {
		has = true
		waits = waits || isGoing(dependent) && slices.Contains(dependent.Finalizers, metav1.FinalizerDeleteDependents)
		return nil
	})
	return has, waits, err
}

// policyOf is how an object is deleted that no owner keeps: as its finalizers say.
func policyOf(obj client.Object) metav1.DeletionPropagation {
	switch {
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
