// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package synthetic

import (
	"fmt"
	"math/rand/v2"
)

// The sizes of the cluster, from which the shares of the label and field queries
// follow: an app is 0.1 % of the Pods, a namespace 1 %, a node 0.05 %.
const (
	Apps       = 1000
	Namespaces = 100
	Nodes      = 2000
)

// FirstVersion is the resourceVersion of Pod 0. All versions have nine digits, as
// those of a cluster some years old have.
const FirstVersion = 100_000_000

// The labels that queries use, and the field.
const (
	AppLabel   = "app.kubernetes.io/name"
	TierLabel  = "topology.example.com/tier"
	TrackLabel = "rollout.example.com/track"
	Canary     = "canary"
	Stable     = "stable"
	NodeField  = "spec.nodeName"
)

// Cluster makes Pods. It has no state: its methods may be called concurrently.
type Cluster struct{ Seed uint64 }

// Identity is what queries need to know about a Pod.
type Identity struct {
	Namespace, Name string
	App             string
	Tier, Track     string
	Node            string

	number, app, node int
	hash              string
}

const (
	hexadecimal = "0123456789abcdef"
	letters     = "bcdfghjklmnpqrstvwxz2456789" // those of generated names
)

// Identity returns that of Pod i. It is far cheaper than the Pod. No two Pods of a
// cluster have the same name.
func (c Cluster) Identity(i int) Identity {
	random := c.random(uint64(i), 1)
	id := Identity{number: i, app: i % Apps, node: random.IntN(Nodes), Track: Stable}
	if random.IntN(4) == 0 {
		id.Track = Canary
	}
	id.App = appName(id.app)
	id.Tier = []string{"gold", "silver", "bronze"}[id.app%3]
	id.Namespace = fmt.Sprintf("team-%02d", id.app%Namespaces)
	id.Node = fmt.Sprintf("node-%04d.eu-central-1.compute.internal", id.node)
	id.hash = c.ofApp(id.app, "hash-"+id.Track, 10)
	id.Name = id.App + "-" + id.hash + "-" + suffix(i)
	return id
}

func appName(app int) string { return fmt.Sprintf("service-%03d", app) }

// suffix is one-to-one, because its factor and the number of suffixes have no
// common divisor.
func suffix(i int) string {
	const all = 27 * 27 * 27 * 27 * 27
	n := i % all * 9_999_991 % all
	b := make([]byte, 5)
	for at := range b {
		b[at] = letters[n%len(letters)]
		n /= len(letters)
	}
	return string(b)
}

// random returns the source of one Pod or app for one purpose.
func (c Cluster) random(number, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, number<<8|purpose))
}

// ofApp returns n hexadecimal digits that all Pods of the app share.
func (c Cluster) ofApp(app int, what string, n int) string {
	purpose := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(what) {
		purpose = (purpose ^ uint64(b)) * 1099511628211
	}
	return word(rand.New(rand.NewPCG(c.Seed^purpose, uint64(app))), n, hexadecimal)
}

func word(random *rand.Rand, n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(b)
}

// NextApp returns the app after this Pod's.
func (id Identity) NextApp() string { return appName((id.app + 1) % Apps) }
