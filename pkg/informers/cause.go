// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/informer"
	"github.com/tarn-dev/tarn/internal/listwatch"
)

// Cause is what keeps an informer from holding what the API server has.
type Cause string

const (
	// Listing means that nothing has failed: the first list is not complete yet.
	Listing Cause = "listing"
	// Forbidden means that the program may not list or watch the kind.
	Forbidden Cause = "forbidden"
	// Unauthorized means that the API server does not accept the credentials of the program.
	Unauthorized Cause = "unauthorized"
	// NotServed means that the API server does not serve the kind.
	NotServed Cause = "kind not served"
	// NotWatchable means that the API server serves the kind, and refuses to list or to watch it (405): its
	// verbs are others. Nobody can cache such a kind.
	NotWatchable Cause = "kind cannot be watched"
	// Undecodable means that an object does not fit the Go type of the kind.
	Undecodable Cause = "object cannot be decoded"
	// TooManyRequests means that the API server sheds load.
	TooManyRequests Cause = "too many requests"
	// Unavailable means that the API server, or the server behind an APIService, answers that it cannot serve the kind now (503).
	Unavailable Cause = "unavailable"
	// ConnectionRefused means that nothing listens where the API server is expected.
	ConnectionRefused Cause = "connection refused"
	// TLS means that the two sides do not accept each other's certificates or protocol.
	TLS Cause = "TLS"
	// Timeout means that the API server, or the way to it, takes too long.
	Timeout Cause = "timeout"
	// TransformFailed means that the transform of the kind failed for an object.
	TransformFailed Cause = "transform failed"
	// IndexFailed means that the function of an index panicked for an object, and that the process went
	// on (utilruntime.ReallyCrash is false). The object is cached, and lists that use the index lack it.
	IndexFailed Cause = "index function failed"
	// Other is everything else. The error says more.
	Other Cause = "other"
)

// causeLabels are the causes as labels of metrics have them, where the two differ.
var causeLabels = map[Cause]string{
	NotServed: "not_served", NotWatchable: "not_watchable", Undecodable: "undecodable", TooManyRequests: "too_many_requests", ConnectionRefused: "connection_refused",
	TLS: "tls", TransformFailed: "transform_failed", IndexFailed: "index_failed",
}

// Label returns the cause as labels of metrics have it: one word in lower case.
func (c Cause) Label() string { return cmp.Or(causeLabels[c], string(c)) }

// Mends reports whether the cause goes away as a rule without anybody doing something about it.
func (c Cause) Mends() bool {
	switch c {
	case Forbidden, Unauthorized, NotServed, NotWatchable, Undecodable, TLS, TransformFailed, IndexFailed:
		return false
	}
	return true
}

// causeOf returns the cause that an error of listing or watching tells of.
func causeOf(err error) Cause {
	cause, _ := causeAndObjectOf(err)
	return cause
}

// causeAndObjectOf returns the cause that an error of listing or watching tells of, and the object that it names, if it does.
func causeAndObjectOf(err error) (Cause, types.NamespacedName) {
	if decodeError := (*listwatch.DecodeError)(nil); errors.As(err, &decodeError) {
		return Undecodable, decodeError.Object
	}
	if lost := (*informer.TransformError)(nil); errors.As(err, &lost) {
		return TransformFailed, lost.Object
	}
	return causeOfRequest(err), types.NamespacedName{}
}

// causeOfRequest returns the cause that the error of a request tells of.
func causeOfRequest(err error) Cause {
	if status := (*listwatch.StatusError)(nil); errors.As(err, &status) {
		return causeOfCode(status.Code)
	}
	switch {
	case apierrors.IsServiceUnavailable(err):
		return Unavailable
	case apierrors.IsForbidden(err):
		return Forbidden
	case apierrors.IsUnauthorized(err):
		return Unauthorized
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return NotServed
	case apierrors.IsMethodNotSupported(err):
		return NotWatchable
	case apierrors.IsTooManyRequests(err):
		return TooManyRequests
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return ConnectionRefused
	case isTLS(err):
		return TLS
	case listwatch.IsTimeout(err):
		return Timeout
	case listwatch.IsUndecodable(err), strings.HasPrefix(err.Error(), "unable to decode"): // of a watch, and of a list
		return Undecodable
	}
	return Other
}

func causeOfCode(code int) Cause {
	switch code {
	case http.StatusForbidden:
		return Forbidden
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusNotFound:
		return NotServed
	case http.StatusMethodNotAllowed:
		return NotWatchable
	case http.StatusTooManyRequests:
		return TooManyRequests
	case http.StatusServiceUnavailable:
		return Unavailable
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return Timeout
	}
	return Other
}

func isTLS(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		invalid      x509.CertificateInvalidError
		host         x509.HostnameError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &invalid) || errors.As(err, &host)
}
