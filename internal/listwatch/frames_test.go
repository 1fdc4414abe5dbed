// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"

	"github.com/tarn-dev/tarn/internal/variable"
)

// frameDecoder decodes a frame to a copy of it.
type frameDecoder struct{}

func (frameDecoder) Decode(data []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return &runtime.Unknown{Raw: bytes.Clone(data)}, nil, nil
}

// lengthDelimited returns a frame as protobuf.LengthDelimitedFramer writes it.
func lengthDelimited(content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), content...)
}

// decodeAll returns the frames that a decoder reads, and the error that ends them.
func decodeAll(d streaming.Decoder) (all [][]byte, err error) {
	for {
		obj, _, err := d.Decode(nil, nil)
		if err != nil {
			return all, err
		}
		all = append(all, obj.(*runtime.Unknown).Raw)
	}
}

// TestFramesAreThoseOfApimachinery, whatever their sizes, and wherever the stream ends.
func TestFramesAreThoseOfApimachinery(t *testing.T) {
	seed := variable.Number(t, "TARN_FRAMES_SEED", uint64(time.Now().UnixNano()))
	t.Logf("TARN_FRAMES_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for name, format := range map[string]struct {
		framer runtime.Framer
		frame  func([]byte) []byte
	}{
		"protobuf": {protobuf.LengthDelimitedFramer, lengthDelimited},
		"JSON":     {jsonFramer{jsonserializer.Framer}, func(content []byte) []byte { return fmt.Appendf(nil, "{%q:%q}\n", "a", content) }},
	} {
		t.Run(name, func(t *testing.T) {
			for range 200 {
				g := NewWithT(t)
				var sent []byte
				for range 1 + random.IntN(5) {
					size := []int{1 + random.IntN(10), 510 + random.IntN(5), 1020 + random.IntN(10), random.IntN(5000), random.IntN(200 << 10)}[random.IntN(5)]
					sent = append(sent, format.frame(bytes.Repeat([]byte{'a' + byte(random.IntN(26))}, size))...)
				}
				if random.IntN(3) == 0 {
					sent = sent[:random.IntN(len(sent))]
				}
				body := func() io.ReadCloser {
					if random.IntN(2) == 0 {
						return format.framer.NewFrameReader(io.NopCloser(iotest.HalfReader(bytes.NewReader(sent))))
					}
					return format.framer.NewFrameReader(io.NopCloser(bytes.NewReader(sent)))
				}
				want, wantErr := decodeAll(streaming.NewDecoder(body(), frameDecoder{}))
				got, err := decodeAll(&frames{ReadCloser: body(), decoder: frameDecoder{}})
				g.Expect(got).To(Equal(want))
				torn := func(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF } // apimachinery's depends on its buffer
				g.Expect(err == wantErr || torn(err) && torn(wantErr)).To(BeTrue(), "%v, want %v", err, wantErr)
			}
		})
	}
}

// endless is a frame without an end.
type endless struct{}

func (endless) Read(into []byte) (int, error) { return len(into), io.ErrShortBuffer }
func (endless) Close() error                  { return nil }

// TestAFrameHasABound, which is about that of client-go.
func TestAFrameHasABound(t *testing.T) {
	if _, _, err := (&frames{ReadCloser: endless{}}).Decode(nil, nil); !errors.Is(err, streaming.ErrObjectTooLarge) {
		t.Errorf("Decode returns %v", err)
	}
}

// TestAWaitHoldsNoBuffer: a large event leaves nothing behind while the next one is waited for.
func TestAWaitHoldsNoBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		read, write := io.Pipe()
		f := &frames{ReadCloser: protobuf.LengthDelimitedFramer.NewFrameReader(read), decoder: frameDecoder{}}
		go func() { _, _ = write.Write(lengthDelimited(make([]byte, 5000))) }()
		_, _, err := f.Decode(nil, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(f.large).NotTo(BeNil())
		ended := make(chan error)
		go func() {
			_, _, err := f.Decode(nil, nil)
			ended <- err
		}()
		synctest.Wait()
		g.Expect(f.large).To(BeNil())
		g.Expect(write.Close()).To(Succeed())
		g.Expect(<-ended).To(Equal(io.EOF))
	})
}
