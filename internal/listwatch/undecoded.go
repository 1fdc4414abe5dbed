// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfeatures "k8s.io/client-go/features"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"

	"github.com/tarn-dev/tarn/internal/projection"
)

// undecoded is an object of a watch in the received bytes. client-go decodes the objects of a watch
// in the one goroutine that receives them, and decoding is most of the cost of an event. With our
// serializer, that goroutine only cuts the stream into objects, and Finish decodes them in other
// goroutines.
type undecoded struct {
	protobuf, json []byte // one of them is set
	left           bool   // the rule does not keep the object, and the message has its metadata alone
}

var _ runtime.Object = (*undecoded)(nil)

// GetObjectKind implements runtime.Object.
func (*undecoded) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. The bytes are shared, because they never change.
func (u *undecoded) DeepCopyObject() runtime.Object { c := *u; return &c }

// messages are buffers for the messages of objects. A buffer comes back when the object is kept in
// another form, so that an event does not allocate the memory of its message.
var messages = sync.Pool{New: func() any { return &[]byte{} }}

// largestMessage is the size in bytes up to which a buffer is used again.
const largestMessage = 64 << 10

// undecodedMessage returns an object with a copy of a protobuf message: of all, or of what keep appends. It reports false if keep is not
// ok.
func undecodedMessage(message []byte, keep projection.MessageFunc) (*undecoded, bool) {
	into := (*messages.Get().(*[]byte))[:0]
	if keep == nil {
		return &undecoded{protobuf: append(into, message...)}, true
	}
	part, kept, ok := keep(into, message)
	return &undecoded{protobuf: part, left: !kept}, ok
}

// release gives the buffer of the message back. Nobody may refer to the message any more.
func (u *undecoded) release() {
	if buffer := u.protobuf; buffer != nil && cap(buffer) <= largestMessage {
		messages.Put(&buffer)
	}
	u.protobuf = nil
}

// leave returns the object as one that a rule does not keep, and gives the message back. It reports false if the rule keeps it, or if only
// the decoded object can tell: of messages the rule was asked when they came. What was cut then leaves, though the rule may keep it by now.
func (u *undecoded) leave(rule *projection.Rule) (projection.Left, bool) {
	m := &metav1.PartialObjectMetadata{}
	if !rule.Drops() || !u.left && u.json == nil || u.decodeInto(m) != nil || !u.left && rule.Keeps(m) {
		return projection.Left{}, false
	}
	u.release()
	return projection.Leave(m), true
}

// decodeInto decodes the bytes into an object of the kind.
func (u *undecoded) decodeInto(into runtime.Object) error {
	if u.json != nil {
		err := kjson.UnmarshalCaseSensitivePreserveInts(u.json, into)
		into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients do
		return err
	}
	message, ok := into.(interface{ Unmarshal([]byte) error })
	if !ok { // the server answers in protobuf whatever the scheme has for the kind
		return fmt.Errorf("%T cannot be decoded from protobuf; set the ContentType of the rest config to JSON", into)
	}
	return message.Unmarshal(u.protobuf)
}

// identify returns the namespace and the version of the object. Other parts of it are not looked at.
func (u *undecoded) identify() (namespace, version string, err error) {
	if u.json != nil {
		text, ok := jsonMetadata(u.json)
		m := metav1.PartialObjectMetadata{}
		if ok {
			err = kjson.UnmarshalCaseSensitivePreserveInts(text, &m.ObjectMeta)
		} else {
			err = kjson.UnmarshalCaseSensitivePreserveInts(u.json, &m)
		}
		return m.Namespace, m.ResourceVersion, err
	}
	part, ok := projection.Identify(nil, u.protobuf)
	m := metav1.PartialObjectMetadata{}
	if !ok {
		part = u.protobuf
	}
	err = m.Unmarshal(part)
	return m.Namespace, m.ResourceVersion, err
}

// canLeaveUndecoded reports whether objects arrive in an encoding that undecoded supports, and
// decodeInto makes the same objects as client-go's decoder.
func canLeaveUndecoded(cfg *rest.Config, example runtime.Object) bool {
	_, protobuf := example.(interface{ Unmarshal([]byte) error })
	_, json := example.(interface{ UnmarshalJSON([]byte) error })
	return (protobuf || !strings.Contains(cfg.ContentType, "protobuf")) && !json &&
		!strings.Contains(cfg.ContentType+cfg.AcceptContentTypes, "cbor") &&
		!clientfeatures.FeatureGates().Enabled(clientfeatures.ClientsPreferCBOR) &&
		reflect.TypeOf(example).Elem().Kind() == reflect.Struct
}

// watchMediaType returns the media type that controller-runtime's clients ask for. It reports false if
// that is unknown: controller-runtime keeps to itself whether a user has declared protobuf for a kind.
func watchMediaType(t Target, example runtime.Object) (mediaType string, known bool) {
	_, protobuf := example.(interface{ Unmarshal([]byte) error })
	switch {
	case t.Config.ContentType != "":
		return t.Config.ContentType, true
	case isBuiltIn(t.Kind):
		return runtime.ContentTypeProtobuf, true
	}
	return "", !protobuf
}

// isBuiltIn reports whether client-go has the kind. Programs add kinds of their own to its scheme,
// whose types are from elsewhere.
func isBuiltIn(kind schema.GroupVersionKind) bool {
	object, err := clientgoscheme.Scheme.New(kind)
	return err == nil && isGenerated(object)
}

// isGenerated reports whether the tags of an object's Go type say how it is written in protobuf.
func isGenerated(object runtime.Object) bool {
	return strings.HasPrefix(reflect.TypeOf(object).Elem().PkgPath(), "k8s.io/api/")
}

// watchConfig returns the configuration of a REST client that watches, without a serializer.
func watchConfig(t Target) *rest.Config {
	gv := t.Kind.GroupVersion()
	config := withoutSerializer(t.Config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return config
}
