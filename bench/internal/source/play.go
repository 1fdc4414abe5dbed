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

// play sends the events. It returns when all were handed to the kernel.
func (s *Server) play(ctx context.Context, to *stream, t *tape, u Updates) error {
	if u.Rate > 0 {
		return s.playAt(ctx, to, t, u)
	}
	buffer := make([]byte, 0, batch+batch/4)
	for n := range u.Count {
		buffer = s.catalog.appendUpdate(buffer, t, u, u.First+n)
		if len(buffer) < batch && n+1 < u.Count {
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
func (s *Server) playAt(ctx context.Context, to *stream, t *tape, u Updates) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var buffer []byte
	begin := time.Now()
	for sent := 0; sent < u.Count; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		due := min(u.Count, int(time.Since(begin).Seconds()*float64(u.Rate)))
		if due == sent {
			continue
		}
		buffer = buffer[:0]
		for ; sent < due; sent++ {
			buffer = s.catalog.appendUpdate(buffer, t, u, u.First+sent)
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
