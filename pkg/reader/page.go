// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"encoding/base64"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// token is the content of a Continue token: the key that the page ended with, and for
// each of the readers the name of the state that it has read. As with an API server, the
// selectors and the namespace are not in it. The caller passes them for every page; other
// ones select among the objects of the state that are behind that key.
type token struct {
	After  string   `json:"after"`
	States []uint64 `json:"states,omitempty"`
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
	t, err := decode(encoded)
	if err != nil || len(t.States) == 0 && readers > 0 {
		return token{}, apierrors.NewBadRequest("continue key is not valid: it did not come from a list of this cache")
	}
	for _, state := range t.States {
		if state == 0 {
			return token{}, apierrors.NewBadRequest("continue key is not valid: it names no state")
		}
	}
	if len(t.States) != readers {
		return token{}, apierrors.NewResourceExpired("the continue parameter is of a list of other namespaces: those of the cache have changed, or the options have; begin the list again without it")
	}
	return t, nil
}

func decode(encoded string) (t token, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	return t, err
}
