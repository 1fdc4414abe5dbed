// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/fields"
)

// oneName is a server that lets list one Pod by its name, as a Role with resourceNames does. The real kube-apiserver 1.36.3
// answers 403 to "metadata.name=stays,metadata.name=", in either order, and 200 to "metadata.name=stays,metadata.name=stays".
type oneName struct {
	restorable
	forbidden atomic.Int64
}

func (s *oneName) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	for _, term := range strings.Split(query.Get("fieldSelector"), ",") {
		if term == "metadata.name=" {
			s.forbidden.Add(1)
			body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods is forbidden"}`
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
		}
	}
	return s.restorable.RoundTrip(r)
}

// TestACacheOfOneNameAsksWhatItMay also if nobody reads, so that failures do not delay the next read.
func TestACacheOfOneNameAsksWhatItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &oneName{}
		server.setList(100, pod("stays", 91, "n"))
		o := testOptions()
		o.Name, o.HTTPClient = "one-name", &http.Client{Transport: server}
		o.Selector.Field = fields.OneTermEqualSelector("metadata.name", "stays")
		m := NewMap(o)
		stop := running(t, m)
		defer stop()
		entry, err := m.Get(t.Context(), podKey)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(entry.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		m.NoteWrite(lostDeletion())
		time.Sleep(2 * time.Minute) // nobody reads
		began := time.Now()
		_, err = readPod(t, entry, "stays")
		t.Logf("%d questions were forbidden; the read took %v: %v", server.forbidden.Load(), time.Since(began), err)
		if err != nil || time.Since(began) > time.Second || server.forbidden.Load() > 0 {
			t.Fail()
		}
	})
}
