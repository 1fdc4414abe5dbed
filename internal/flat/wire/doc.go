// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire says how Go types stand in protobuf messages.
//
// An API server that answers in protobuf sends an object as the message that the generated Unmarshal
// method of its Go type reads. Compile makes a Plan that says the same as that method: which field of the
// message is which field of the struct. So an encoder writes the flat form straight from the message, and
// no struct is made. The numbers of the fields stand in the struct tags. What tags mean is for the
// Unmarshal methods to say, so a caller compares both on the messages of Example before it uses a Plan.
//
// A Plan never changes, and any number of goroutines may use it. What is found shares the memory of the
// message. A message that encoders of the API never write, with a field twice for example, is unusual:
// Scan reports it, and Unmarshal has to read it.
//
// # Files
//
//   - plan.go: the plans of messages and values, made of a plan.Root
//   - wire.go: finds the fields of a message, without decoding their values
//   - example.go: examples of a message
package wire
