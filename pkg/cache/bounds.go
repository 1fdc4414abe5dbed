// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/pkg/informers"
)

const (
	// boundsPeriod is how often bytes are compared with their bounds. It is longer if to estimate them takes more than a hundredth
	// of it.
	boundsPeriod = time.Second
	// boundsPause is how long after a line in the log another one tells of the same bound.
	boundsPause = 10 * time.Minute
	// maxLargest is how many kinds are named when the whole cache is over its bound.
	maxLargest = 3
)

// bounds compares what a cache holds with MaxBytes, and evicts what can be had again. It belongs to a goroutine of Start, which ends
// with its context; others look at what it has seen last.
type bounds struct {
	most    int64 // of the whole cache; zero is no bound
	kind    func(schema.GroupVersionKind) TuningByObject
	logger  logr.Logger
	metrics *metrics.Bounds                       // with what was seen last
	told    map[schema.GroupVersionKind]time.Time // when the log told of a bound; the goroutine alone has it
}

// newBounds returns nil if nothing has a bound: then nothing is looked at.
func newBounds(t *Tuning, shared *informers.Shared) *bounds {
	kinds := append(slices.Collect(maps.Values(t.ByObject)), t.TuningByObject)
	if t.MaxBytes == 0 && !slices.ContainsFunc(kinds, func(of TuningByObject) bool { return of.MaxBytes > 0 }) {
		return nil
	}
	return &bounds{
		most: t.MaxBytes, kind: shared.Tuning, logger: shared.Logger, metrics: shared.Metrics.Bounds(), told: map[schema.GroupVersionKind]time.Time{},
	}
}

func (b *bounds) run(ctx context.Context, c *informerCache) {
	next := time.NewTimer(boundsPeriod)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		b.check(c)
		next.Reset(max(boundsPeriod, 100*time.Since(begun)))
	}
}

// check evicts what is over a bound, first of single kinds, then of all.
func (b *bounds) check(c *informerCache) {
	taken := c.bytes()
	for gvk, bytes := range taken {
		if most := b.kind(gvk).MaxBytes; most > 0 && bytes > most {
			b.evict(c, taken, func(other schema.GroupVersionKind) bool { return other == gvk }, bytes-most)
		}
	}
	if sum := sumOf(taken); b.most > 0 && sum > b.most {
		b.evict(c, taken, func(schema.GroupVersionKind) bool { return true }, sum-b.most)
	}
	b.see(taken)
}

// bytes returns about how many bytes each kind takes.
func (c *informerCache) bytes() map[schema.GroupVersionKind]int64 {
	taken := map[schema.GroupVersionKind]int64{}
	for entry := range c.watched() {
		all, _ := entry.Bytes()
		taken[entry.Key().GroupVersionKind] += int64(all)
	}
	if made := c.leases.made.Load(); made != nil {
		(*made).Copies(object.MemoryOf, func(gvk schema.GroupVersionKind, bytes int) { taken[gvk] += int64(bytes) })
	}
	return taken
}

// watched walks the informers, without those that show what another one watches.
func (c *informerCache) watched() iter.Seq[*informers.MapEntry] {
	return func(yield func(*informers.MapEntry) bool) {
		watches := map[any]struct{}{}
		for _, m := range c.maps() {
			for _, entry := range m.Entries() {
				watch := entry.Inspected().Watch()
				if _, again := watches[watch]; again {
					continue
				}
				if watches[watch] = struct{}{}; !yield(entry) {
					return
				}
			}
		}
	}
}

// evict evicts so many bytes of some kinds, if there is as much to evict, and takes them off taken.
func (b *bounds) evict(c *informerCache, taken map[schema.GroupVersionKind]int64, of func(schema.GroupVersionKind) bool, over int64) {
	evicted := func(gvk schema.GroupVersionKind, what string, bytes int) {
		b.metrics.Evicted(gvk, what)
		taken[gvk] -= int64(bytes)
		over -= int64(bytes)
	}
	if made := c.leases.made.Load(); made != nil {
		(*made).Evict(of, int(over), evicted)
	}
	for entry := range c.watched() {
		if over <= 0 {
			return
		}
		if gvk := entry.Key().GroupVersionKind; of(gvk) {
			if _, shared := entry.Bytes(); shared > 0 {
				entry.DropShared()
				evicted(gvk, "shared", shared)
			}
		}
	}
}

// see notes what is left, and logs what is over its bound.
func (b *bounds) see(taken map[schema.GroupVersionKind]int64) {
	var all []metrics.Bounded // in the order of groups, kinds and versions
	if b.most > 0 {
		sum, more := sumOf(taken), ""
		if sum > b.most {
			more = "; " + largest(taken)
		}
		all = append(all, bounded(schema.GroupVersionKind{}, "the cache", sum, b.most, more))
	}
	for _, gvk := range sortedKinds(taken, func(x, y schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Version, y.Version))
	}) {
		if most := b.kind(gvk).MaxBytes; most > 0 {
			all = append(all, bounded(gvk, object.Describe(gvk), taken[gvk], most, ""))
		}
	}
	b.metrics.See(all)
	for _, is := range all {
		if is.Over != "" && time.Since(b.told[is.GroupVersionKind]) > boundsPause {
			b.told[is.GroupVersionKind] = time.Now()
			b.logger.Info("More is cached than MaxBytes allows", "reason", is.Over, "bytes", is.Bytes, "maxBytes", is.Most)
		}
	}
}

// bounded compares the bytes of something with their bound.
func bounded(gvk schema.GroupVersionKind, what string, bytes, most int64, more string) metrics.Bounded {
	is := metrics.Bounded{GroupVersionKind: gvk, Bytes: bytes, Most: most}
	if bytes > most {
		is.Over = fmt.Sprintf("%s takes %s, MaxBytes allows %s, and nothing more can be evicted%s: restrict it by namespaces, selectors, Fields or a transform, hold leases on what is used, or raise MaxBytes",
			what, mebibytes(bytes), mebibytes(most), more)
	}
	return is
}

// sortedKinds returns the kinds in an order. Package slices would add 15 KB for this type to each program.
func sortedKinds(taken map[schema.GroupVersionKind]int64, compare func(x, y schema.GroupVersionKind) int) []schema.GroupVersionKind {
	kinds := slices.Collect(maps.Keys(taken))
	sort.Slice(kinds, func(i, k int) bool { return compare(kinds[i], kinds[k]) < 0 })
	return kinds
}

// largest names the largest kinds.
func largest(taken map[schema.GroupVersionKind]int64) string {
	kinds := sortedKinds(taken, func(x, y schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(taken[y], taken[x]), strings.Compare(x.String(), y.String()))
	})
	var texts []string
	for _, gvk := range kinds[:min(len(kinds), maxLargest)] {
		texts = append(texts, fmt.Sprintf("%s takes %s", object.Describe(gvk), mebibytes(taken[gvk])))
	}
	return strings.Join(texts, ", ")
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func sumOf(taken map[schema.GroupVersionKind]int64) (sum int64) {
	for _, bytes := range taken {
		sum += bytes
	}
	return sum
}

// Bounds implements inspected.Cache.
func (c *informerCache) Bounds() []metrics.Bounded {
	if c.bounds == nil {
		return nil
	}
	return c.bounds.metrics.Seen()
}
