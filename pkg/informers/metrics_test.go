// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	toolscache "k8s.io/client-go/tools/cache"
)

// published is the metrics provider of this test binary.
var published = &identifiers{}

// identifiers records the informers that client-go asks metrics for.
type identifiers struct {
	mu   sync.Mutex // guards seen
	seen []toolscache.InformerNameAndResource
}

type noMetric struct{}

func (noMetric) Set(float64)     {}
func (noMetric) Observe(float64) {}

func (i *identifiers) NewStoreResourceVersionMetric(id toolscache.InformerNameAndResource) toolscache.GaugeMetric {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen = append(i.seen, id)
	return noMetric{}
}

func (i *identifiers) NewQueuedItemMetric(toolscache.InformerNameAndResource) toolscache.GaugeMetric {
	return noMetric{}
}

func (i *identifiers) NewProcessingLatencyMetric(toolscache.InformerNameAndResource) toolscache.HistogramMetric {
	return noMetric{}
}

// of returns the identifiers of informers of the cache called name.
func (i *identifiers) of(name string) []toolscache.InformerNameAndResource {
	i.mu.Lock()
	defer i.mu.Unlock()
	var found []toolscache.InformerNameAndResource
	for _, id := range i.seen {
		if strings.HasPrefix(id.Name(), name+"/") {
			found = append(found, id)
		}
	}
	return found
}

func TestInformersHaveAnIdentifierForTheirMetrics(t *testing.T) {
	g := NewWithT(t)
	o := testOptions()
	o.Name, o.Namespace = fmt.Sprint("metrics-test-", time.Now().UnixNano()), "default" // one for each -count
	m := NewMap(o)
	metadataKey := Key{GroupVersionKind: podKey.GroupVersionKind, Representation: Metadata}
	for _, key := range []Key{podKey, metadataKey} {
		_, err := m.Get(t.Context(), key)
		g.Expect(err).NotTo(HaveOccurred())
	}
	ids := published.of(o.Name)
	g.Expect(ids).To(HaveLen(2))
	g.Expect(ids[0].Name()).To(Equal(o.Name + "/structured/pods/default@v1"))
	g.Expect(ids[0].GroupVersionResource().Resource).To(Equal("pods"))
	g.Expect(ids[0].Reserved()).To(BeTrue())

	m.Remove(podKey)
	g.Expect(ids[0].Reserved()).To(BeFalse(), "the metrics of an informer end with it")
	_, err := m.Get(t.Context(), podKey)
	g.Expect(err).NotTo(HaveOccurred(), "the name can be had again at once")
	again := published.of(o.Name)
	g.Expect(again).To(HaveLen(3))
	g.Expect(again[2].Reserved()).To(BeTrue())
	m.Remove(podKey)
	m.Remove(metadataKey)
}
