// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// away is an API server that cannot be reached: each request fails in the same way.
type away func(*http.Request) (*http.Response, error)

func (a away) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func unreachable(err error) away {
	return func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
}

// busy answers as an API server does that sheds load.
func busy(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests",
		Header: http.Header{"Retry-After": {"1"}}, Body: io.NopCloser(strings.NewReader("slow down")), Request: r,
	}, nil
}

// TestATimeoutNamesAFailureThatIsRetried: the Reflector and the REST client try again what
// fails in these ways, and tell nobody.
func TestATimeoutNamesAFailureThatIsRetried(t *testing.T) {
	for name, c := range map[string]struct {
		transport away
		says      string // in lower case
	}{
		"connection refused":  {unreachable(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connection refused"},
		"connection reset":    {unreachable(os.NewSyscallError("read", syscall.ECONNRESET)), "connection reset by peer"},
		"connection closed":   {unreachable(io.EOF), "dial tcp: eof"},
		"packets are dropped": {unreachable(os.ErrDeadlineExceeded), "i/o timeout"},
		"too many requests":   {busy, "too many requests"},
	} {
		for _, representation := range []Representation{Structured, Unstructured, Metadata} {
			t.Run(name+"/"+representation.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := NewWithT(t)
					o := testOptions()
					o.EnableWatchBookmarks = true
					o.HTTPClient = &http.Client{Transport: c.transport}
					m := NewMap(o)
					stop := running(t, m)
					entry, err := m.Get(t.Context(), Key{GroupVersionKind: podKey.GroupVersionKind, Representation: representation})
					g.Expect(err).NotTo(HaveOccurred())
					short, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					err = entry.WaitForSync(short)
					g.Expect(apierrors.IsTimeout(err)).To(BeTrue())
					g.Expect(strings.ToLower(err.Error())).To(ContainSubstring(c.says))
					stop()
				})
			})
		}
	}
}
