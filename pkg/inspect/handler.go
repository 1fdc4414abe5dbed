// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// Options say what is shown. The zero value is ready to use.
type Options struct {
	// ShowSecrets shows the values of Secrets. By default only the names of the keys and annotations
	// are shown, because an annotation may hold the whole Secret. Secrets cannot be selected by indexed
	// fields, which would let values be guessed.
	ShowSecrets bool
}

// New returns a handler that shows c, which must be a cache of package github.com/tarn-dev/tarn/pkg/cache,
// such as a manager's GetCache returns. Otherwise New returns an error.
//
// The handler expects paths that begin where it is mounted, so a prefix must be stripped:
//
//	mgr.AddMetricsServerExtraHandler("/inspect/", http.StripPrefix("/inspect", handler))
func New(c cache.Cache, o Options) (http.Handler, error) {
	subject, ok := c.(inspected.Cache[*informers.MapEntry])
	if !ok {
		return nil, fmt.Errorf("cannot inspect a %T: pass a cache as New or With of package github.com/tarn-dev/tarn/pkg/cache made it", c)
	}
	h := &handler{cache: subject, options: o, program: thisProgram(), taps: newTaps(subject.Go)}
	h.mux = h.routes()
	return h, nil
}

type handler struct {
	cache   inspected.Cache[*informers.MapEntry]
	options Options
	program program
	taps    *taps
	mux     *http.ServeMux
}

//go:embed assets
var assets embed.FS

// routes returns the paths of the handler.
func (h *handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for name, contentType := range map[string]string{
		"":          "text/html; charset=utf-8",
		"app.js":    "text/javascript; charset=utf-8",
		"style.css": "text/css; charset=utf-8",
		"icon.svg":  "image/svg+xml",
	} {
		file := name
		if file == "" {
			name, file = "{$}", "index.html"
		}
		content, err := assets.ReadFile("assets/" + file)
		if err != nil {
			panic(err) // it is embedded
		}
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { send(w, http.StatusOK, contentType, content) })
	}
	const kind = "/api/v1/kinds/{group}/{version}/{kind}/{representation}"
	mux.HandleFunc("/api/v1/overview", answer(h.overview))
	mux.HandleFunc("/api/v1/kinds", answer(h.kinds))
	mux.HandleFunc("/api/v1/controllers", answer(h.controllers))
	mux.HandleFunc(kind, answer(h.kind))
	mux.HandleFunc(kind+"/events", answer(h.events))
	mux.HandleFunc(kind+"/objects", answer(h.objects))
	mux.HandleFunc(kind+"/explain", answer(h.explain))
	mux.HandleFunc(kind+"/object", h.object)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, notFound("there is nothing at %q: if the handler is mounted under a prefix, strip it, as http.StripPrefix does", r.URL.Path))
	})
	return mux
}

// headers are those of all answers. The page needs no scripts or styles but its own files, and
// neither browsers nor proxies keep its contents.
var headers = map[string]string{
	"Cache-Control":                "no-store",
	"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "this handler only shows: use GET or HEAD"))
	case r.URL.Path == "": // the links of the page are relative
		w.Header().Set("Location", path.Base(strings.SplitN(r.RequestURI, "?", 2)[0])+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
	default:
		h.mux.ServeHTTP(w, r)
	}
}

// answer returns a handler that sends what f returns as JSON.
func answer[T any](f func(*http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := f(r)
		if err != nil {
			fail(w, err)
			return
		}
		sendJSON(w, http.StatusOK, value)
	}
}

func sendJSON(w http.ResponseWriter, code int, value any) {
	body := &bytes.Buffer{}
	encoder := json.NewEncoder(body)
	encoder.SetEscapeHTML(false) // nobody takes it for HTML: see headers
	if err := encoder.Encode(value); err != nil {
		code = http.StatusInternalServerError
		body = bytes.NewBufferString(strconv.Quote(err.Error()))
	}
	send(w, code, "application/json", body.Bytes())
}

func send(w http.ResponseWriter, code int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have gone
}

// fail sends an error as an API server does: as a Status. An error without a status was wrong in
// the request.
func fail(w http.ResponseWriter, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: err.Error()}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	sendJSON(w, int(status.Code), status)
}

// coreGroup stands for the empty group in paths. No other group has this name: those of CRDs have a
// dot.
const coreGroup = "core"

// found is what a path names: the informers of one kind in one representation.
type found struct {
	key     informers.Key
	entries []*informers.MapEntry // at least one
	others  []*informers.MapEntry // of the kind in other representations
}

// foundIn returns the informers of key among others, in their order.
func foundIn(key informers.Key, all []*informers.MapEntry) found {
	f := found{key: key}
	for _, entry := range all {
		switch {
		case entry.Key() == key:
			f.entries = append(f.entries, entry)
		case entry.Key().GroupVersionKind == key.GroupVersionKind:
			f.others = append(f.others, entry)
		}
	}
	return f
}

// find returns the informers that the path of r names.
func (h *handler) find(r *http.Request) (found, error) {
	f := found{}
	f.key.Group, f.key.Version, f.key.Kind = r.PathValue("group"), r.PathValue("version"), r.PathValue("kind")
	if f.key.Group == coreGroup {
		f.key.Group = ""
	}
	representation, known := representations[r.PathValue("representation")]
	if !known {
		return f, apierrors.NewBadRequest(fmt.Sprintf("%q is no representation: use structured, unstructured or metadata", r.PathValue("representation")))
	}
	f.key.Representation = representation
	f = foundIn(f.key, h.cache.Informers())
	if len(f.entries) == 0 {
		return f, notFound("the cache has no informer of %s as %s: nobody has read it or listened to it, and this page starts none; api/v1/kinds has those that there are",
			object.Describe(f.key.GroupVersionKind), f.key.Representation)
	}
	return f, nil
}

var representations = map[string]informers.Representation{
	informers.Structured.String():   informers.Structured,
	informers.Unstructured.String(): informers.Unstructured,
	informers.Metadata.String():     informers.Metadata,
}

func notFound(format string, args ...any) error {
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf(format, args...))
}

func failure(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}
