// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarn-dev/tarn/internal/inspected"
)

// events answers with the recent events of a kind. The first poll begins to follow them.
func (h *handler) events(r *http.Request) (recent, error) {
	f, err := h.find(r)
	if err != nil {
		return recent{}, err
	}
	if !h.cache.Started() {
		return recent{}, failure(http.StatusConflict, "Conflict", "the cache is not started: there are no events yet")
	}
	after := uint64(0)
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return recent{}, apierrors.NewBadRequest(fmt.Sprintf("after: %q is no number of an event", text))
		}
	}
	followed := make([]inspected.Followed, len(f.entries))
	for i, entry := range f.entries {
		followed[i] = entry.Inspected()
	}
	return h.taps.poll(r.Context(), f.key, followed, after), nil
}
