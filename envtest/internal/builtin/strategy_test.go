// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// kindOf finds the row of an object's type.
func kindOf(t *testing.T, obj runtime.Object) *kind.Kind {
	t.Helper()
	gvks, _, err := Scheme().ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		if k.GVK == gvks[0] {
			return k
		}
	}
	t.Fatalf("no row for %T", obj)
	return nil
}

func deployment(replicas, ready int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "ns"}}
	d.Spec.Replicas = &replicas
	d.Status.ReadyReplicas = ready
	return d
}

func TestStrategyGuardsStatusAndGeneration(t *testing.T) {
	ctx := context.Background()
	s := kind.NewStrategy(kindOf(t, deployment(0, 0)), Scheme())

	created := deployment(1, 9)
	created.Generation = 7
	s.PrepareForCreate(ctx, created)
	if created.Status.ReadyReplicas != 0 || created.Generation != 1 {
		t.Errorf("create keeps status %v, generation %d", created.Status, created.Generation)
	}
	old := deployment(1, 5)
	old.Generation = 3
	for _, c := range []struct {
		name       string
		change     func(*appsv1.Deployment)
		generation int64
	}{
		{"nothing", func(*appsv1.Deployment) {}, 3},
		{"status", func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 8 }, 3},
		{"labels", func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} }, 3},
		{"annotations, which a Deployment copies to its Pods' controllers", func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} }, 4},
		{"spec", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) }, 4},
	} {
		updated := old.DeepCopy()
		c.change(updated)
		s.PrepareForUpdate(ctx, updated, old)
		if updated.Status.ReadyReplicas != 5 {
			t.Errorf("a change of %s: status is %v", c.name, updated.Status)
		}
		if updated.Generation != c.generation {
			t.Errorf("a change of %s: generation is %d, want %d", c.name, updated.Generation, c.generation)
		}
	}

	status := deployment(9, 6)
	status.Generation = 3
	kind.NewStatusStrategy(s).PrepareForUpdate(ctx, status, old)
	if *status.Spec.Replicas != 1 || status.Status.ReadyReplicas != 6 || status.Generation != 3 {
		t.Errorf("the status subresource makes %v", status)
	}
}

func TestStrategyResetFields(t *testing.T) {
	s := kind.NewStrategy(kindOf(t, deployment(0, 0)), Scheme())
	if set := s.GetResetFields()["apps/v1"]; !set.Has(fieldpath.MakePathOrDie("status")) {
		t.Errorf("a write to the object may own %s", set)
	}
	if set := kind.NewStatusStrategy(s).GetResetFields()["apps/v1"]; !set.Has(fieldpath.MakePathOrDie("spec")) {
		t.Errorf("a write to the status may own %s", set)
	}
	class := kind.NewStrategy(kindOf(t, &storagev1.StorageClass{}), Scheme())
	if set := class.GetResetFields(); set != nil {
		t.Errorf("a kind without status resets %v", set)
	}
}

func TestStrategyChecksNames(t *testing.T) {
	for _, c := range []struct {
		obj  metav1.Object
		name string
		ok   bool
	}{
		{&corev1.ConfigMap{}, "a.b", true},
		{&corev1.ConfigMap{}, "A", false},
		{&corev1.Namespace{}, "a-b", true},
		{&corev1.Namespace{}, "a.b", false},
		{&corev1.Service{}, "1a", true},
		{&corev1.Service{}, "a.b", false},
	} {
		obj := c.obj.(runtime.Object)
		k := kindOf(t, obj)
		c.obj.SetName(c.name)
		if !k.Cluster {
			c.obj.SetNamespace("ns")
		}
		Scheme().Default(obj)
		if errs := kind.NewStrategy(k, Scheme()).ValidateMeta(obj); (len(errs) == 0) != c.ok {
			t.Errorf("%s named %q: %v", k.GVK.Kind, c.name, errs)
		}
	}
}

func TestEveryStrategyCreatesAndUpdates(t *testing.T) {
	for _, k := range kinds() {
		obj := kind.NewFunc(Scheme(), k.GVK)()
		m, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		m.SetName("one")
		if !k.Cluster {
			m.SetNamespace("ns")
		}
		ctx := genericapirequest.WithNamespace(genericapirequest.NewContext(), m.GetNamespace())
		if k.Hooks.Read != nil {
			if err := k.Hooks.Read(obj); err != nil {
				t.Errorf("%s: an empty object is not read: %v", k.GVK, err)
			}
		}
		Scheme().Default(obj)
		rest.FillObjectMetaSystemFields(m)
		s := kind.NewStrategy(k, Scheme())
		// An empty object is invalid for many kinds; it must be refused, never panic.
		_ = rest.BeforeCreate(s, ctx, obj)
		m.SetResourceVersion("1")
		_ = rest.BeforeUpdate(s, ctx, obj.DeepCopyObject(), obj)
		_, _ = s.WarningsOnCreate(ctx, obj), s.WarningsOnUpdate(ctx, obj.DeepCopyObject(), obj)
		if k.Rules.Status {
			if err := rest.BeforeUpdate(kind.NewStatusStrategy(s), ctx, obj.DeepCopyObject(), obj); err != nil {
				t.Errorf("%s: an unchanged status is refused: %v", k.GVK, err)
			}
		}
	}
}

// TestEveryKindDropsWhatIsOff sets fields of features that are off in new objects, in the spec of a Pod in each kind that has one.
func TestEveryKindDropsWhatIsOff(t *testing.T) {
	withPods := 0
	for _, k := range kinds() {
		obj := kind.NewFunc(Scheme(), k.GVK)()
		spec := podSpecIn(reflect.ValueOf(obj).Elem())
		if spec == nil {
			continue
		}
		withPods++
		spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
		spec.Containers = []corev1.Container{{Lifecycle: &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGHUP)}}}
		kind.NewStrategy(k, Scheme()).PrepareForCreate(context.Background(), obj)
		if spec.SchedulingGroup != nil || spec.Containers[0].Lifecycle != nil {
			t.Errorf("%s keeps fields of features that are off: let its row prepare it", k.GVK)
		}
	}
	if withPods < 9 {
		t.Errorf("%d kinds have the spec of a Pod", withPods)
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Config: &corev1.NodeConfigStatus{}}}
	kind.NewStatusStrategy(kind.NewStrategy(kindOf(t, node), Scheme())).PrepareForUpdate(context.Background(), node, &corev1.Node{})
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{PreferredHolder: ptr.To("other")}}
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(1))},
	}}}
	slice := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{DeprecatedTopology: map[string]string{"a": "b"}}}}
	driver := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(true)}}
	account := &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Kind: "Secret", Name: "one"}}}
	for _, obj := range []runtime.Object{lease, set, slice, driver, account} {
		kind.NewStrategy(kindOf(t, obj), Scheme()).PrepareForUpdate(context.Background(), obj, kind.NewFunc(Scheme(), kindOf(t, obj).GVK)())
	}
	if node.Status.Config != nil || lease.Spec.PreferredHolder != nil || set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil ||
		slice.Endpoints[0].DeprecatedTopology != nil || driver.Spec.PreventPodSchedulingIfMissing != nil || account.Secrets[0].Kind != "" {
		t.Errorf("fields of features that are off are left in %v, %v, %v, %v, %v, %v", node.Status, lease.Spec, set.Spec, slice.Endpoints, driver.Spec, account.Secrets)
	}
}

// podSpecIn returns the spec of a Pod in a part of an object, or nil. It makes what is missing on the way.
func podSpecIn(part reflect.Value) *corev1.PodSpec {
	if spec, is := part.Addr().Interface().(*corev1.PodSpec); is {
		return spec
	}
	if part.Kind() == reflect.Pointer && part.Type() == reflect.TypeFor[*corev1.PodTemplateSpec]() {
		part.Set(reflect.New(part.Type().Elem()))
		part = part.Elem()
	}
	if part.Kind() != reflect.Struct {
		return nil
	}
	for i := range part.NumField() {
		if part.Type().Field(i).IsExported() {
			if spec := podSpecIn(part.Field(i)); spec != nil {
				return spec
			}
		}
	}
	return nil
}

func TestOrphans(t *testing.T) {
	for obj, want := range map[runtime.Object]rest.GarbageCollectionPolicy{
		&batchv1.Job{}:       rest.OrphanDependents,
		&appsv1.Deployment{}: rest.DeleteDependents,
		&corev1.Event{}:      rest.Unsupported,
	} {
		if got := kind.NewStrategy(kindOf(t, obj), Scheme()).DefaultGarbageCollectionPolicy(context.Background()); got != want {
			t.Errorf("%T: %s, want %s", obj, got, want)
		}
	}
}
