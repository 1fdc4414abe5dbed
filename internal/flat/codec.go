// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"reflect"
	"sync"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat/decode"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/flat/encode"
	"github.com/tarn-dev/tarn/internal/flat/plan"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// Codec writes and reads the flat form of one Go type. It is safe for concurrent use.
type Codec struct {
	root     *plan.Root
	encoders sync.Pool // of *encode.Encoder

	message         func() (*wire.Plan, error) // made at the first call
	messageEncoders sync.Pool                  // of *encode.MessageEncoder; only if there is a plan of the message
}

// codecs are all that For has returned.
var codecs sync.Map // *plan.Root -> *Codec

// For returns the codec of t, a struct type or a pointer to one. It is compiled at the first
// call. The error is an *UnsupportedError if objects of the type cannot be kept without loss.
func For(t reflect.Type) (*Codec, error) {
	r, err := plan.For(t)
	if err != nil {
		return nil, err
	}
	c, ok := codecs.Load(r)
	if !ok {
		c, _ = codecs.LoadOrStore(r, newCodec(r))
	}
	return c.(*Codec), nil
}

// newCodec returns a codec for the type of r.
func newCodec(r *plan.Root) *Codec {
	c := &Codec{root: r}
	c.encoders.New = func() any { return encode.New(r) }
	c.message = sync.OnceValues(c.compileMessage)
	c.messageEncoders.New = func() any {
		p, _ := c.message() // EncodeWireAfter has looked at the error
		return encode.NewMessageEncoder(r, p)
	}
	return c
}

// Type returns the struct type whose objects this codec writes and reads.
func (c *Codec) Type() reflect.Type { return c.root.Type }

// Metadata returns the ObjectMeta inside obj, a non-nil pointer to the codec's type: the one that
// Encode writes as the metadata of obj. It returns nil if the type does not embed an ObjectMeta by
// value, and for unstructured content, whose metadata is available through the methods of the
// object.
func (c *Codec) Metadata(obj any) *metav1.ObjectMeta {
	p, err := c.root.Memory(obj)
	if err != nil || !c.root.HasMetadata() {
		return nil
	}
	return (*metav1.ObjectMeta)(unsafe.Add(p, c.root.Meta))
}

// Encode returns the flat form of obj, a non-nil pointer to the codec's type. It keeps no reference
// to obj. Strings that several objects share enter dict. A nil dict is allowed: the Object then
// contains all its strings itself and is larger.
//
// The error is a *ValueError if obj holds a value that the codec cannot keep without loss.
func (c *Codec) Encode(obj any, dict *dictionary.Dictionary) (decode.Object, error) {
	e := c.encoders.Get().(*encode.Encoder)
	defer c.encoders.Put(e)
	return e.Encode(obj, dict)
}

// SupportsWire returns nil if EncodeWire reads the messages of the type, and otherwise the reason
// why not. The first call takes some milliseconds.
func (c *Codec) SupportsWire() error {
	_, err := c.message()
	return err
}

// EncodeWire returns the flat form of the object that the Unmarshal method of the codec's type reads
// from a protobuf message, without making that object. It keeps no reference to the message. Dict is
// that of Encode.
//
// The error is ErrUnusualMessage, a *ValueError as of Encode, or what SupportsWire returns. After
// an error, the caller can Unmarshal the message and Encode the object.
func (c *Codec) EncodeWire(message []byte, dict *dictionary.Dictionary) (decode.Object, error) {
	return c.EncodeWireAfter(message, dict, nil)
}

// EncodeWireAfter is EncodeWire for the update of an object. Previous returns any earlier state of
// the object, or the zero Object; it is called at most once, and must not keep its arguments.
// What is the same in that state and in the message is copied, if that state is of this type and this
// dictionary, and was a message of 1 KiB or more, or an update itself. The result equals that of EncodeWire, and may differ in its
// bytes.
func (c *Codec) EncodeWireAfter(message []byte, dict *dictionary.Dictionary, previous func(namespace, name string) decode.Object) (decode.Object, error) {
	if _, err := c.message(); err != nil {
		return decode.Object{}, err
	}
	e := c.messageEncoders.Get().(*encode.MessageEncoder)
	defer c.messageEncoders.Put(e)
	return e.Encode(message, dict, previous)
}

// Decode overwrites into, a non-nil pointer to the codec's type, with the object that was encoded.
// The result shares no memory with the Object or with other callers, except strings, which are
// immutable. The package comment says how much memory a kept string keeps.
//
// The error is ErrWrongType or ErrCorrupt; into is then in an undefined but valid state.
func (c *Codec) Decode(o decode.Object, into any) error { return decode.Decode(c.root, o, into, true) }

// DecodeReusing is Decode for a caller that already has a similar decoded object and changes
// neither. Like is that decoded object, and other is its flat form; into and like are non-nil
// pointers to the codec's type. DecodeReusing overwrites into with the object of o. Where a slice,
// a map or a pointer has the same content in o and in other, into refers to the memory of like
// instead of new memory. Objects of two dictionaries are not compared and share nothing.
//
// The comparison is one of the bytes of the two Objects, in which recurring values are numbers.
// This costs much less than a comparison of decoded values, or than their allocation. A few equal
// values may be taken for different ones, and are decoded. Errors are those of Decode.
func (c *Codec) DecodeReusing(o decode.Object, into any, other decode.Object, like any) error {
	return decode.Reusing(c.root, o, into, other, like)
}

// Reencode returns o encoded with dict. It serves to move o from one dictionary to another. Errors
// are those of Decode and Encode.
func (c *Codec) Reencode(o decode.Object, dict *dictionary.Dictionary) (decode.Object, error) {
	obj := reflect.New(c.root.Type).Interface()
	if err := c.Decode(o, obj); err != nil {
		return decode.Object{}, err
	}
	return c.Encode(obj, dict)
}
