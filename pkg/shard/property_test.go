// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/variable"
)

// settleTime is within how long after the last change each key is held: LeaseDuration, and what requests and watches take.
const settleTime = 15*time.Second + 15*time.Second

// TestNeverTwoOwnersNeverNoneForLong has replicas that join, leave, crash, come back under their names or under the names of others,
// are cut off, and have clocks that run at different rates; a server that is away, loses answers and gets requests late; and Leases
// that are deleted by hand.
func TestNeverTwoOwnersNeverNoneForLong(t *testing.T) {
	seed, rounds := variable.Number(t, "TARN_SHARD_SEED", uint64(time.Now().UnixNano())), 12
	if testing.Short() || variable.Detector { // it takes five times as long
		rounds = 3
	}
	for i := range rounds {
		t.Run(fmt.Sprintf("TARN_SHARD_SEED=%d", seed+uint64(i)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { disturb(t, rand.New(rand.NewPCG(seed+uint64(i), 1))) })
		})
		if t.Failed() {
			return
		}
	}
}

func disturb(t *testing.T, random *rand.Rand) {
	w := newWorld(t, rand.New(rand.NewPCG(random.Uint64(), 2)), 30)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for w.ctx.Err() == nil && !t.Failed() {
			w.checkOne()
			time.Sleep(50 * time.Millisecond)
		}
	}()
	defer func() { w.close(); <-ended }()
	d := &disturber{world: w, random: random}
	for range 3 {
		d.join()
	}
	longest := time.Duration(0)
	for range 6 {
		for range 1 + random.IntN(12) {
			d.act()
			if random.IntN(3) > 0 {
				time.Sleep(time.Duration(random.Int64N(int64(8 * time.Second))))
			}
		}
		d.calm()
		longest = max(longest, w.settle(settleTime))
		d.server.setCalm(false)
		if t.Failed() {
			return
		}
	}
	t.Logf("settled within %s", longest)
}

type disturber struct {
	*world
	random *rand.Rand
	names  int
	gone   []string
}

// pick returns one of the replicas, or nil.
func (d *disturber) pick() *replica {
	if live := d.replicas(); len(live) > 0 {
		return live[d.random.IntN(len(live))]
	}
	return nil
}

func (d *disturber) join() *replica {
	d.names++
	return d.begin(fmt.Sprintf("m%d", d.names))
}

func (d *disturber) begin(name string) *replica {
	return d.start(name, 0.9+d.random.Float64()/5, &link{
		delay: time.Duration(d.random.Int64N(int64(300 * time.Millisecond))), lost: d.random.Float64() / 10, late: d.random.Float64() / 20,
	})
}

func (d *disturber) act() {
	r := d.pick()
	switch action := d.random.IntN(9); {
	case action < 2 || r == nil:
		if len(d.replicas()) < 7 {
			d.join()
		}
	case action == 2:
		d.tell("%s leaves", r)
		r.stop()
		d.gone = append(d.gone, r.name)
	case action == 3:
		d.crash(r)
		d.gone = append(d.gone, r.name)
	case action == 4 && len(d.gone) > 0:
		d.begin(d.gone[d.random.IntN(len(d.gone))])
	case action == 5 && d.random.IntN(3) == 0:
		d.begin(r.name) // the second one of its name waits
	case action == 6:
		d.cut(r)
	case action == 7 && d.random.IntN(3) == 0:
		d.tell("the server is away")
		for _, r := range d.replicas() {
			r.link.setCut(true)
		}
		time.Sleep(time.Duration(d.random.Int64N(int64(30 * time.Second))))
		d.heal()
	case action == 8:
		d.deleteByHand(r)
	}
}

func (d *disturber) cut(r *replica) {
	d.tell("%s is cut off", r)
	r.link.setCut(true)
	time.AfterFunc(time.Duration(d.random.Int64N(int64(40*time.Second))), func() {
		d.tell("%s is connected", r)
		r.link.setCut(false)
	})
}

func (d *disturber) heal() {
	d.tell("the server is back")
	for _, r := range d.replicas() {
		r.link.setCut(false)
	}
}

// calm ends all faults. Of two with one name, one would wait for ever.
func (d *disturber) calm() {
	names := []string{}
	for _, r := range d.replicas() {
		if slices.Contains(names, r.name) {
			d.tell("%s leaves, because it is the second of its name", r)
			r.stop()
		}
		names = append(names, r.name)
	}
	d.server.setCalm(true)
	d.heal()
}

// deleteByHand deletes the Lease of a replica that notices it, while another member is there that tells newcomers.
func (d *disturber) deleteByHand(r *replica) {
	witnesses := 0
	for _, other := range d.replicas() {
		own, err := d.server.get("shop-" + other.name)
		if err == nil && !other.link.isCut() && len(other.ring.Members()) > 1 && other.ring.Members()[other.name] == ptr.Deref(own.Spec.HolderIdentity, "") {
			witnesses++
		}
	}
	if witnesses > 2 {
		d.tell("the Lease of %s is deleted by hand", r)
		_ = d.server.delete("shop-"+r.name, nil)
	}
}
