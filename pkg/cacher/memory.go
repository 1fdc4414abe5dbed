// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// What values take in memory, roughly: the history is bounded by it.
const (
	// decodedRatio is what a decoded object takes for each byte of its protobuf: about 20 KB
	// for a Pod of 5 KB.
	decodedRatio = 4
	// pairBytes is a key and a value in a map[string]any.
	pairBytes = 64
	// wordBytes is any other value behind an interface.
	wordBytes = 24
	// unknownBytes is an object about which nothing is known.
	unknownBytes = 4 << 10
)

// memoryOf estimates the bytes that an object takes when it is decoded.
func memoryOf(obj runtime.Object) int {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return contentBytes(o.Object)
	case interface{ Size() int }: // those that have a protobuf form
		return decodedRatio * o.Size()
	}
	return unknownBytes
}

// contentBytes estimates the bytes of JSON-like content.
func contentBytes(content any) int {
	switch c := content.(type) {
	case map[string]any:
		sum := wordBytes
		for key, value := range c {
			sum += pairBytes + len(key) + contentBytes(value)
		}
		return sum
	case []any:
		sum := wordBytes
		for _, value := range c {
			sum += contentBytes(value)
		}
		return sum
	case string:
		return wordBytes + len(c)
	}
	return wordBytes
}
