// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

const pods = 2000

var cluster = synthetic.Cluster{Seed: 1}

func TestPodsHaveTheSizeOfRealOnes(t *testing.T) {
	var all int
	for i := range pods {
		all += cluster.Pod(i).Size()
	}
	if mean := all / pods; mean < 4600 || mean > 5200 {
		t.Errorf("a Pod has %d bytes as protobuf on average, want 4,600 to 5,200", mean)
	}
	b, err := json.Marshal(cluster.Pod(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Pod 0: %d bytes as protobuf, %d as JSON", cluster.Pod(0).Size(), len(b))
}

func TestPodsDependOnSeedAndNumberAlone(t *testing.T) {
	late := cluster.Pod(7)
	for i := range 20 {
		cluster.Pod(i)
	}
	if !equality.Semantic.DeepEqual(late, cluster.Pod(7)) {
		t.Error("Pod 7 is another one after other Pods were made")
	}
	other := synthetic.Cluster{Seed: 2}.Pod(7)
	if late.Name == other.Name || late.UID == other.UID {
		t.Error("another seed gives the same Pod")
	}
}

func TestPodsHaveWhatTheirIdentitySays(t *testing.T) {
	names, stable := map[string]bool{}, 0
	for i := range pods {
		id, pod := cluster.Identity(i), cluster.Pod(i)
		names[id.Namespace+"/"+id.Name] = true
		got := synthetic.Identity{
			Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, App: pod.Labels[synthetic.AppLabel],
			Tier: pod.Labels[synthetic.TierLabel], Track: pod.Labels[synthetic.TrackLabel],
		}
		if got.Namespace != id.Namespace || got.Name != id.Name || got.Node != id.Node ||
			got.App != id.App || got.Tier != id.Tier || got.Track != id.Track {
			t.Fatalf("Pod %d: %+v, its identity says %+v", i, got, id)
		}
		if want := strconv.Itoa(synthetic.FirstVersion + i); pod.ResourceVersion != want {
			t.Fatalf("Pod %d has resourceVersion %s, want %s", i, pod.ResourceVersion, want)
		}
		numbers := [5]int{len(pod.Labels), len(pod.Annotations), len(pod.ManagedFields), len(pod.Spec.Containers), len(pod.Spec.Volumes)}
		if want := [5]int{6, 5, 3, 2, 2}; numbers != want {
			t.Fatalf("Pod %d: %v labels, annotations, managedFields, containers and volumes; want %v", i, numbers, want)
		}
		for _, entry := range pod.ManagedFields {
			if !json.Valid(entry.FieldsV1.GetRawBytes()) {
				t.Fatalf("Pod %d: fields of %s are no JSON: %s", i, entry.Manager, entry.FieldsV1.GetRawString())
			}
		}
		if id.Track == synthetic.Stable {
			stable++
		}
	}
	if len(names) != pods {
		t.Errorf("%d Pods have %d names", pods, len(names))
	}
	if stable < pods*70/100 || stable > pods*80/100 {
		t.Errorf("%d of %d Pods are on the stable track, want three quarters", stable, pods)
	}
}

func TestWorkloadsAreCopiedWhole(t *testing.T) {
	workload := synthetic.WorkloadOf(cluster.Pod(3))
	list := &synthetic.WorkloadList{Items: []synthetic.Workload{*workload}}
	list.ResourceVersion = "7"
	for _, object := range []runtime.Object{workload, list} {
		if copied := object.DeepCopyObject(); !equality.Semantic.DeepEqual(copied, object) {
			t.Errorf("the copy of a %T is another one", object)
		}
	}
	copied, ok := workload.DeepCopyObject().(*synthetic.Workload)
	if !ok {
		t.Fatal("the copy of a Workload is no Workload")
	}
	copied.Labels["changed"], copied.Spec.Volumes[0].Name = "yes", "changed"
	if workload.Labels["changed"] != "" || workload.Spec.Volumes[0].Name == "changed" {
		t.Error("a copy shares labels or volumes with its origin")
	}
}

func TestChangesDiffer(t *testing.T) {
	before := cluster.Pod(3)
	for lap := range 4 {
		after := cluster.Changed(3, lap)
		if equality.Semantic.DeepEqual(before.Status, after.Status) {
			t.Errorf("lap %d changes nothing", lap)
		}
		if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			t.Errorf("lap %d changes the spec", lap)
		}
		before = after
	}
}
