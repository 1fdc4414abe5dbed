// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// draft is a Pod while it is made.
type draft struct {
	Cluster
	Identity
	random  *rand.Rand
	created metav1.Time
}

// Pod returns Pod i, running and ready. The caller owns it.
func (c Cluster) Pod(i int) *corev1.Pod {
	d := draft{
		Cluster: c, Identity: c.Identity(i), random: c.random(uint64(i), 2),
		created: metav1.Unix(1_790_000_000+int64(i%1_000_000), 0),
	}
	return &corev1.Pod{ObjectMeta: d.meta(), Spec: d.spec(), Status: d.status()}
}

// Changed returns Pod i after an update of its status. Two successive values of
// lap give different Pods; so every event of a sequence is a change.
func (c Cluster) Changed(i, lap int) *corev1.Pod {
	pod := c.Pod(i)
	at := metav1.NewTime(pod.CreationTimestamp.Add(time.Duration(1+lap) * time.Hour))
	ready := lap%2 == 1
	for n := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[n]
		if condition.Type != corev1.PodReady && condition.Type != corev1.ContainersReady {
			continue
		}
		condition.LastTransitionTime = at
		if !ready {
			condition.Status, condition.Reason = corev1.ConditionFalse, "ContainersNotReady"
			condition.Message = "containers with unready status: [main]"
		}
	}
	pod.Status.ContainerStatuses[0].Ready = ready
	pod.Status.ContainerStatuses[0].RestartCount = int32(1 + lap)
	pod.Status.ContainerStatuses[0].State.Running.StartedAt = at
	return pod
}

func (d draft) meta() metav1.ObjectMeta {
	set := d.App + "-" + d.hash
	return metav1.ObjectMeta{
		Name:              d.Name,
		GenerateName:      set + "-",
		Namespace:         d.Namespace,
		UID:               types.UID(uid(word(d.random, 32, hexadecimal))),
		ResourceVersion:   strconv.Itoa(FirstVersion + d.number),
		Generation:        1,
		CreationTimestamp: d.created,
		Labels: map[string]string{
			AppLabel:                    d.App,
			"app.kubernetes.io/part-of": "platform-" + strconv.Itoa(d.app%40),
			"app.kubernetes.io/version": d.version(),
			TierLabel:                   d.Tier,
			TrackLabel:                  d.Track,
			"pod-template-hash":         d.hash,
		},
		Annotations: map[string]string{
			"prometheus.io/scrape":                           "true",
			"prometheus.io/port":                             "8080",
			"checksum/config":                                d.ofApp(d.app, "config", 64),
			"kubectl.kubernetes.io/restartedAt":              "2026-03-02T11:22:33Z",
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: d.setUID(),
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
		ManagedFields: d.managedFields(),
	}
}

func (d draft) version() string { return fmt.Sprintf("v1.%d.%d", d.app%17, d.app%5) }

// setUID is that of the ReplicaSet.
func (d draft) setUID() types.UID {
	return types.UID(uid(d.ofApp(d.app, "set-"+d.Track, 32)))
}

func uid(h string) string {
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
