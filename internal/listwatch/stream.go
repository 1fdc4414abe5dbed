// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/projection"
)

// watchClient watches with the REST client of client-go, but reads the streams itself. client-go
// reads a stream in a goroutine of its own, which hands each event to another one. If events come
// one by one, that takes as long as decoding a small object.
type watchClient struct {
	config *rest.Config // without a serializer
	http   *http.Client
	kind   schema.GroupVersionKind
	other  runtime.Decoder // of objects that are not of the kind
	keep   projection.MessageFunc
}

func newWatchClient(config *rest.Config, client *http.Client, kind schema.GroupVersionKind, other runtime.Decoder, keep projection.MessageFunc) (*watchClient, error) {
	c := &watchClient{config: config, http: client, kind: kind, other: other, keep: keep}
	_, err := c.client(&stream{}) // an error of the configuration is one of today
	return c, err
}

// client returns a REST client for one watch, whose stream it hands to s. client-go hands a stream
// to the serializer of its client only, so each watch needs a client.
func (c *watchClient) client(s *stream) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.NegotiatedSerializer = &handingSerializer{newWatchSerializer(c.kind, c.other, c.keep), s}
	return rest.RESTClientForConfigAndClient(config, c.http)
}

// watch watches what request asks for.
func (c *watchClient) watch(ctx context.Context, request func(rest.Interface) *rest.Request) (watch.Interface, error) {
	s := &stream{logger: klog.FromContext(ctx)}
	client, err := c.client(s)
	if err != nil {
		return nil, err
	}
	w, err := request(client).Watch(ctx)
	if err != nil || s.decoder == nil { // for example, a connection that was closed at once
		return w, err
	}
	for range w.ResultChan() { // client-go's goroutine has found an empty stream, and ends
	}
	return s, nil
}

// stream is a watch. The goroutine that wants its events may read them by Next, in place of
// ResultChan.
type stream struct {
	logger  klog.Logger
	decoder watch.Decoder
	body    *watchBody
	ended   bool // by an error; of the goroutine that calls Next

	mu      sync.Mutex           // guards watcher
	watcher *watch.StreamWatcher // nil until it is asked for
}

// Next implements ordered.Stream. It waits for the next event, and returns false when the stream has ended. It treats errors as
// watch.StreamWatcher does.
func (s *stream) Next() (event watch.Event, open bool) {
	if s.ended {
		return watch.Event{}, false
	}
	action, object, err := s.decoder.Decode()
	if err == nil {
		return watch.Event{Type: action, Object: object}, true
	}
	s.ended = true
	switch {
	case err == io.EOF:
	case err == io.ErrUnexpectedEOF:
		s.logger.V(1).Info("Unexpected EOF during watch stream event decoding", "err", err)
	case utilnet.IsProbableEOF(err), utilnet.IsTimeout(err):
		s.logger.V(5).Info("Unable to decode an event from the watch stream", "err", err)
	default:
		if s.body.failed == nil {
			return undecodable(err), true
		}
		return watch.Event{Type: watch.Error, Object: s.AsObject(fmt.Errorf("the connection of a watch broke: %w", err))}, true
	}
	return watch.Event{}, false
}

// AsObject implements watch.Reporter, for an error that ends the stream.
func (s *stream) AsObject(err error) runtime.Object {
	if s.body.failed != nil {
		return brokenReporter.AsObject(err)
	}
	return reporter.AsObject(err)
}

// brokenReporter makes the Status of a connection that broke. client-go would report an event that cannot be
// decoded, as if somebody had to correct an object.
var brokenReporter = apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchBroken")

// watchBody is the body of a watch, which remembers that it could not be read, for its reader.
type watchBody struct {
	io.ReadCloser
	failed error
}

// Read implements io.Reader.
func (b *watchBody) Read(into []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(into)
	if err != nil && err != io.EOF {
		b.failed = err
	}
	return n, err
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watcher == nil {
		s.watcher = watch.NewStreamWatcherWithLogger(s.logger, s.decoder, s)
	}
	return s.watcher.ResultChan()
}

// Stop implements watch.Interface.
func (s *stream) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watcher != nil {
		s.watcher.Stop()
		return
	}
	s.decoder.Close()
}

// handingSerializer hands the stream of a watch to a stream. The REST client gets an empty one.
type handingSerializer struct {
	*watchSerializer
	to *stream
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s *handingSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	types := make([]runtime.SerializerInfo, 0, len(s.types))
	for _, info := range s.types {
		handing := *info.StreamSerializer
		handing.Framer = &handingFramer{handing.Framer, info, s.to}
		info.StreamSerializer = &handing
		types = append(types, info)
	}
	return types
}

type handingFramer struct {
	runtime.Framer
	info runtime.SerializerInfo
	to   *stream
}

// NewFrameReader implements runtime.Framer. It is called before the watch is returned.
func (f *handingFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	f.to.body = &watchBody{ReadCloser: r}
	of := &frames{ReadCloser: f.Framer.NewFrameReader(f.to.body), decoder: f.info.StreamSerializer.Serializer}
	f.to.decoder = restwatch.NewDecoder(of, f.info.Serializer)
	return http.NoBody
}
