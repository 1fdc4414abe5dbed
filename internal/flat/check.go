// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"reflect"

	"github.com/tarn-dev/tarn/internal/flat/encode"
	"github.com/tarn-dev/tarn/internal/flat/wire"
)

// compileMessage makes the plan of the message of the codec's type.
//
// A plan is made of struct tags, and what they mean is for the Unmarshal methods to say. So two
// messages are read both ways before the plan is used: one in which each field has a value, and
// one in which each field stands with an empty value. If the objects differ, the type has no plan.
func (c *Codec) compileMessage() (*wire.Plan, error) {
	p, err := wire.Compile(c.root)
	if err != nil {
		return nil, err
	}
	e := encode.NewMessageEncoder(c.root, p)
	for _, empty := range []bool{false, true} {
		if err := c.checkMessage(e, p.Example(empty)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// checkMessage returns an error if e does not read from a message what Unmarshal reads.
func (c *Codec) checkMessage(e *encode.MessageEncoder, message []byte) error {
	obj := reflect.New(c.root.Type).Interface()
	method, ok := obj.(wire.Unmarshaler)
	if !ok {
		return fmt.Errorf("%v has no Unmarshal method", c.root.Type)
	}
	if err := method.Unmarshal(message); err != nil {
		return fmt.Errorf("%v does not read an example of its message: %w", c.root.Type, err)
	}
	o, err := e.Encode(message, nil, nil)
	if err != nil {
		return fmt.Errorf("%v: an example of its message: %w", c.root.Type, err)
	}
	if err := c.verify(obj, o, false); err != nil { // a slab makes Go types, which stay: of kinds that no object may have
		return fmt.Errorf("an example of its message is read in two ways: %w", err)
	}
	return nil
}
