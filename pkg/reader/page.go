// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"encoding/base64"
	"encoding/json"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarn-dev/tarn/pkg/object"
	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// page is a part of a list that is read in several calls.
type page struct {
	limited bool   // there may be another page after this one
	state   uint64 // the state that the page before was read from; 0 for the first
	after   string // the key that the page before ended with
}

// token is what a Continue token holds: the key that the list ended with, and for
// each of the readers the state that it read.
type token struct {
	After  string   `json:"after"`
	States []uint64 `json:"states"`
}

func (t token) encode() string {
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err) // a string and numbers can be written
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// decodeToken reads a token for a list from so many readers.
func decodeToken(encoded string, readers int) (token, error) {
	var t token
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil || len(t.States) != readers {
		return token{}, apierrors.NewBadRequest("continue key is not valid: it did not come from a list of this cache with the same options")
	}
	return t, nil
}

// maxPages is how many states are kept for lists that are read page by page. One
// that is not finished when so many others have begun since must be begun again.
const maxPages = 8

// pages keeps the states of lists that have pages to come.
type pages struct {
	mu     sync.Mutex // guards what follows
	newest uint64
	states []pageState
}

type pageState struct {
	state    uint64
	snapshot *watchcache.Snapshot[object.Object]
}

// add keeps the snapshot of a list that begins, if it may have pages to come, and
// returns the name of its state.
func (p *pages) add(snapshot *watchcache.Snapshot[object.Object], of page) uint64 {
	if of.state != 0 || !of.limited {
		return of.state
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.states {
		if k.snapshot == snapshot {
			return k.state
		}
	}
	p.newest++
	p.states = append(p.states, pageState{state: p.newest, snapshot: snapshot})
	if len(p.states) > maxPages {
		p.states = append([]pageState(nil), p.states[1:]...)
	}
	return p.newest
}

// find returns the snapshot of a state. One that is not kept any more is a
// ResourceExpired API error, as it is from an API server.
func (p *pages) find(state uint64) (*watchcache.Snapshot[object.Object], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.states {
		if k.state == state {
			return k.snapshot, nil
		}
	}
	return nil, apierrors.NewResourceExpired("the provided continue parameter is too old to display a consistent list result: begin the list again without it")
}
