// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"net/http"
	"time"
)

// stream is an open watch.
type stream struct {
	http.ResponseWriter
	controller *http.ResponseController
}

// batch is how much is handed to the kernel at once at full speed: enough to make
// the calls cheap, and less than a socket buffers.
const batch = 256 << 10

// tick is how often a stream at a given rate is looked after.
const tick = time.Millisecond

// play sends the events of r, the first of which has number first. It returns when
// all were handed to the kernel.
func (s *Server) play(ctx context.Context, to *stream, t *tape, first int, r request) error {
	if r.rate > 0 {
		return s.playAt(ctx, to, t, first, r)
	}
	buffer := make([]byte, 0, batch+batch/4)
	for n := range r.count {
		buffer = s.catalog.appendUpdate(buffer, t, first+n)
		if len(buffer) < batch && n+1 < r.count {
			continue
		}
		if err := to.send(buffer); err != nil {
			return err
		}
		buffer = buffer[:0]
	}
	return nil
}

// playAt sends what is due at each tick. If the client does not keep up, it falls
// behind, and makes up for it as soon as it can.
func (s *Server) playAt(ctx context.Context, to *stream, t *tape, first int, r request) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var buffer []byte
	begin := time.Now()
	for sent := 0; sent < r.count; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		due := min(r.count, int(time.Since(begin).Seconds()*float64(r.rate)))
		if due == sent {
			continue
		}
		buffer = buffer[:0]
		for ; sent < due; sent++ {
			buffer = s.catalog.appendUpdate(buffer, t, first+sent)
		}
		if err := to.send(buffer); err != nil {
			return err
		}
	}
	return nil
}

func (to *stream) send(b []byte) error {
	if _, err := to.Write(b); err != nil {
		return err
	}
	return to.controller.Flush()
}
