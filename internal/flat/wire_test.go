// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"bytes"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// withoutWirePlan says which kinds of client-go's scheme are read by Unmarshal: these have maps of
// lists, whose empty lists Unmarshal makes in a way of its own.
var withoutWirePlan = map[string]bool{
	"SubjectAccessReview": true, "LocalSubjectAccessReview": true, "SelfSubjectReview": true, "TokenReview": true,
	"TokenRequest": true, "CertificateSigningRequest": true,
}

// All kinds that a typed client reads as protobuf have a wire plan, but for those that are listed.
func TestKindsOfTheAPIHaveAWirePlan(t *testing.T) {
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		obj := reflect.New(typ).Interface()
		codec, err := flat.For(typ)
		if err != nil || codec.Metadata(obj) == nil {
			continue
		}
		if _, ok := obj.(interface{ Marshal() ([]byte, error) }); !ok {
			continue
		}
		if err := codec.SupportsWire(); (err != nil) != withoutWirePlan[gvk.Kind] {
			t.Errorf("%v: %v", gvk, err)
		}
	}
}

// wrappedPod has the Unmarshal method of the Pod in it, and no tag says so.
type wrappedPod struct{ corev1.Pod }

// partlyTagged has a field whose number only the Unmarshal method knows.
type partlyTagged struct {
	metav1.TypeMeta
	metav1.ObjectMeta `protobuf:"bytes,1,opt,name=metadata"`
	Data              map[string]string
}

func (p *partlyTagged) Unmarshal(message []byte) error {
	c := corev1.ConfigMap{}
	err := c.Unmarshal(message)
	p.ObjectMeta, p.Data = c.ObjectMeta, c.Data
	return err
}

// EncodeWire does not read a type whose Unmarshal method sets fields of which the tags say nothing.
func TestATypeWithoutTagsHasNoWirePlan(t *testing.T) {
	g := NewWithT(t)
	for _, typ := range []reflect.Type{reflect.TypeFor[wrappedPod](), reflect.TypeFor[partlyTagged]()} {
		codec, err := flat.For(typ)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(codec.SupportsWire()).To(MatchError(ContainSubstring("without a protobuf tag")), "%v", typ)
	}
}

// What EncodeWire makes of a message is what Encode makes of the object that Unmarshal makes of it.
func TestEncodeWireIsUnmarshalAndEncode(t *testing.T) {
	f := newFiller(newSeed(t))
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		codec, err := flat.For(typ)
		if err != nil || codec.SupportsWire() != nil {
			continue
		}
		dict := dictionary.New(dictionary.Limits{})
		for range 5 {
			obj := reflect.New(typ).Interface()
			f.Fill(obj)
			message, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				t.Fatalf("%v: %v", gvk, err)
			}
			checkWire(t, codec, message, dict)
		}
	}
}

// checkWire compares both ways to read a message. It reports whether EncodeWire has read it.
func checkWire(t testing.TB, codec *flat.Codec, message []byte, dict *dictionary.Dictionary) bool {
	g := NewWithT(t)
	g.THelper()
	got, err := codec.EncodeWire(message, dict)
	if err != nil {
		return false
	}
	want := reflect.New(codec.Type()).Interface()
	g.Expect(want.(interface{ Unmarshal([]byte) error }).Unmarshal(message)).To(Succeed(), "what Unmarshal refuses is not read")
	g.Expect(codec.Verify(want, got)).To(Succeed())
	return true
}

// A message that Unmarshal reads in a way of its own, or not at all, is never read in another way.
func TestUnusualMessages(t *testing.T) {
	codec := podCodec(t)
	whole := func(p *corev1.Pod) []byte {
		b, err := p.Marshal()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return b
	}
	named := whole(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}}})
	spec := whole(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}})
	for name, test := range map[string]struct {
		message []byte
		read    bool
	}{
		"none":                       {nil, true},
		"an unknown field":           {append(bytes.Clone(named), 0xfa, 0x07, 2, 1, 2), true},
		"an unknown field of 64 bit": {append(bytes.Clone(named), 0xf9, 0x07, 1, 2, 3, 4, 5, 6, 7, 8), true},
		"an unknown field of 32 bit": {append(bytes.Clone(named), 0xfd, 0x07, 1, 2, 3, 4), true},
		"an unknown group":           {append(bytes.Clone(named), 0xfb, 0x07, 0xfc, 0x07), false},
		"metadata twice":             {append(bytes.Clone(named), named...), false},
		"a spec twice":               {append(bytes.Clone(spec), spec...), false},
		"cut short":                  {named[:len(named)-1], false},
		"another wire type":          {[]byte{1 << 3, 5}, false},
		"the number 0":               {[]byte{0, 5}, false},
		"a length beyond the end":    {[]byte{1<<3 | 2, 0x7f}, false},
		"a label twice":              {[]byte{0x0a, 16, 0x5a, 6, 0x0a, 1, 'a', 0x12, 1, 'b', 0x5a, 6, 0x0a, 1, 'a', 0x12, 1, 'c'}, false},
		"a label without a value":    {[]byte{0x0a, 5, 0x5a, 3, 0x0a, 1, 'a'}, false},
		"a value before its key":     {[]byte{0x0a, 8, 0x5a, 6, 0x12, 1, 'b', 0x0a, 1, 'a'}, false},
		"owners apart":               {[]byte{0x0a, 8, 0x6a, 0, 0x0a, 2, 'n', 'n', 0x6a, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(checkWire(t, codec, test.message, nil)).To(Equal(test.read))
		})
	}
}

// EncodeWire keeps no reference to the message: the caller may use its memory again.
func TestEncodeWireKeepsNoReferenceToTheMessage(t *testing.T) {
	g, codec, cl, dict := NewWithT(t), podCodec(t), newCluster(1), dictionary.New(dictionary.Limits{})
	for i := range 50 {
		message, err := cl.pod(i).Marshal()
		g.Expect(err).NotTo(HaveOccurred())
		want := new(corev1.Pod)
		g.Expect(want.Unmarshal(message)).To(Succeed())
		o, err := codec.EncodeWire(message, dict)
		g.Expect(err).NotTo(HaveOccurred())
		clear(message)
		g.Expect(codec.Verify(want, o)).To(Succeed())
	}
}

// Both ways to read a message make forms of one size, but for the few strings that a hash by chance
// keeps out of the dictionary or of the references: neither form is worse to keep.
func TestBothWaysToReadAMessageMakeTheSameForm(t *testing.T) {
	g, codec, cl := NewWithT(t), podCodec(t), newCluster(1)
	one, other := dictionary.New(dictionary.Limits{}), dictionary.New(dictionary.Limits{})
	wire, object := 0, 0
	for i := range 500 {
		message, err := cl.pod(i).Marshal()
		g.Expect(err).NotTo(HaveOccurred())
		pod := new(corev1.Pod)
		g.Expect(pod.Unmarshal(message)).To(Succeed())
		a, err := codec.EncodeWire(message, one)
		g.Expect(err).NotTo(HaveOccurred())
		b, err := codec.Encode(pod, other)
		g.Expect(err).NotTo(HaveOccurred())
		wire, object = wire+a.Size(), object+b.Size()
	}
	g.Expect(wire).To(BeNumerically("~", object, object/20))
	g.Expect(one.Stats().Bytes).To(BeNumerically("~", other.Stats().Bytes, other.Stats().Bytes/2))
	t.Logf("%d and %d bytes; dictionaries %+v and %+v", wire, object, one.Stats(), other.Stats())
}

// FuzzEncodeWire damages messages. What EncodeWire reads must be what Unmarshal reads.
func FuzzEncodeWire(f *testing.F) {
	codec, cl := podCodec(f), newCluster(1)
	for i := range 4 {
		message, err := cl.pod(i).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message, uint16(i), byte(i))
	}
	f.Fuzz(func(t *testing.T, message []byte, at uint16, b byte) {
		message = bytes.Clone(message)
		if len(message) > 0 {
			message[int(at)%len(message)] ^= b
		}
		checkWire(t, codec, message, dictionary.New(dictionary.Limits{}))
	})
}
