// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/internal/variable"
)

// corpusBound is the least number of requests that are worth the name.
const corpusBound = 3000

// TestCorpus sends the same requests to the API server of tests and to a real kube-apiserver, and compares what they
// answer: code, reason, causes, warnings, objects, the cells of tables. What differs must be in knownDifferences, with its
// reason, and docs/fidelity.md must have the table that the run makes of them:
//
//	go run ./envtest/cmd/oracle -kubeconfig FILE &
//	TARN_ORACLE_KUBECONFIG=FILE TARN_WRITE_FIDELITY=true go test ./envtest -run TestCorpus -v
//
// The comparison leaves out:
//   - headers but for warnings, and how long an answer takes;
//   - the texts of errors, the details of a Status but for its causes, and how often a cause is named;
//   - what lasting removes from objects, ages in cells, and how columns are described;
//   - watches, protobuf, CBOR and YAML, and lists of more than one object;
//   - what happens between requests: events, controllers, and what webhooks and policies are sent;
//   - subresources but for status and scale, and requests of users other than an administrator;
//   - changes of more than one field at a time, and annotations that knownAnnotations does not name.
//
// TARN_CORPUS_SEED is the seed of the requests that are drawn.
func TestCorpus(t *testing.T) {
	kubeconfig := os.Getenv(oracleVariable)
	if kubeconfig == "" {
		t.Skipf("SKIPPED: the corpus needs a real kube-apiserver to compare with, and %s names none", oracleVariable)
	}
	theirs, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	seed := variable.Number(t, "TARN_CORPUS_SEED", 1)
	c := &corpus{run: strconv.FormatInt(time.Now().UnixNano(), 36), seed: seed, used: map[string]int{}}
	for _, config := range []*rest.Config{theirs, envtest.Start(t).Config()} {
		server, err := newCaller(config)
		if err != nil {
			t.Fatal(err)
		}
		c.servers = append(c.servers, server)
	}
	if err := c.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d (TARN_CORPUS_SEED): %s", seed, c.summary())
	c.judge(t)
}

// corpus is one run. Its counters and lists are guarded by mu: stories of different kinds run beside each other.
type corpus struct {
	servers []*caller // the real one first
	run     string    // in the names of what this run makes
	seed    uint64

	mu      sync.Mutex
	asked   int
	invalid int // of asked, those that the real server refused
	lenient []string
	strict  []string       // refused, though the real server does it
	unknown []string       // differences that no entry of knownDifferences explains
	used    map[string]int // times that an entry did, by its pattern
}

// all runs every story of every kind.
func (c *corpus) all(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(4)
	for i, s := range slices.Concat(samples(), corpusSamples()) {
		if only := os.Getenv("TARN_CORPUS_ONLY"); only != "" && only != s.resource.Resource {
			continue
		}
		group.Go(func() error {
			return newStory(c, s, rand.New(rand.NewPCG(c.seed, uint64(i)))).tell(ctx)
		})
	}
	return group.Wait()
}

// compare notes what differs between two answers to the same request.
func (c *corpus) compare(label string, theirs, ours answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if theirs.refused() {
		c.invalid++
	}
	if !slices.Equal(theirs.warnings, ours.warnings) {
		c.note(fmt.Sprintf("%s: warnings: %s, not %s", label, whole(ours.warnings), whole(theirs.warnings)), nil)
	}
	switch t, o := theirs.verdict(), ours.verdict(); {
	case t != o:
		list := &c.strict
		switch {
		case !ours.refused():
			list = &c.lenient
		case theirs.refused():
			list = nil
		}
		c.note(fmt.Sprintf("%s: %s, not %s", label, o, t), list)
	case theirs.refused():
	default:
		lines := differences("", lasting(theirs.object), lasting(ours.object))
		lines = append(lines, differences("cells", lasting(theirs.rows), lasting(ours.rows))...)
		if theirs.object == nil && theirs.text != ours.text {
			lines = append(lines, "text: "+short(ours.text)+", not "+short(theirs.text))
		}
		if len(lines) > 0 {
			c.note(label+": "+strings.Join(lines, "; "), nil)
		}
	}
}

// note takes a difference. It goes to list too, if there is one, but for a valid request that is known to be refused.
func (c *corpus) note(found string, list *[]string) {
	found = strings.ReplaceAll(found, "-"+c.run, "")
	known := slices.IndexFunc(knownDifferences, func(k knownDifference) bool { return k.pattern.MatchString(found) })
	if known >= 0 {
		c.used[knownDifferences[known].pattern.String()]++
	} else {
		c.unknown = append(c.unknown, found)
	}
	if list == &c.lenient || list == &c.strict && known < 0 {
		*list = append(*list, found)
	}
}

func (c *corpus) summary() string {
	known := 0
	for _, times := range c.used {
		known += times
	}
	return fmt.Sprintf("%d requests to each server, of which the real one refused %d; %d answers differ as is known, %d otherwise; "+
		"accepted though invalid: %d; refused though valid: %d", c.asked, c.invalid, known, len(c.unknown), len(c.lenient), len(c.strict))
}

// judge fails the test when the servers differ in a way that is not known, or more than is allowed.
func (c *corpus) judge(t *testing.T) {
	slices.Sort(c.unknown)
	for _, line := range c.unknown {
		t.Errorf("differs: %s", line)
	}
	if os.Getenv("TARN_CORPUS_ONLY") != "" {
		return
	}
	if c.asked < corpusBound {
		t.Errorf("%d requests, want at least %d", c.asked, corpusBound)
	}
	if len(c.strict) > 0 {
		t.Errorf("%d valid requests were refused", len(c.strict))
	}
	if len(c.lenient)*100 > c.invalid {
		t.Errorf("%d of %d invalid requests were accepted, more than 1 %%", len(c.lenient), c.invalid)
	}
	for _, known := range knownDifferences {
		if c.used[known.pattern.String()] == 0 {
			t.Errorf("nothing differs any more as this entry of knownDifferences says: %s", known.pattern)
		}
	}
}
