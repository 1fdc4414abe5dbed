// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// paths reads what a request is for from its path, as the server itself does.
var paths = &genericapirequest.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

// largestBody bounds what is read of a request that creates an object, for its name. The server refuses larger ones.
const largestBody = 3 << 20

// request is what a rule is compared with.
type request struct {
	verb, group, resource, sub string
	namespace, name            string
	generateName               string
	user, agent                string
	own                        bool          // the server asks itself
	server                     bool          // no user asks: the server does, as its watch caches do, and not through a request
	creates                    *http.Request // whose body has the name, until it was read
}

// requestOf returns what the request is for, or nil if it is not for a resource.
func requestOf(req *http.Request) *request {
	info, ok := genericapirequest.RequestInfoFrom(req.Context())
	if !ok {
		var err error
		if info, err = paths.NewRequestInfo(req); err != nil {
			return nil
		}
	}
	if !info.IsResourceRequest {
		return nil
	}
	r := &request{
		verb: info.Verb, group: info.APIGroup, resource: info.Resource, sub: info.Subresource,
		namespace: info.Namespace, name: info.Name, agent: req.UserAgent(),
	}
	if r.group == "" {
		r.group = coreGroup
	}
	if who, ok := genericapirequest.UserFrom(req.Context()); ok {
		r.user, r.own = who.GetName(), who.GetName() == user.APIServerUser
	}
	if r.verb == "create" && r.name == "" {
		r.creates = req
	}
	return r
}

// matches compares all but the object.
func (r *Rule) matches(q *request) bool {
	equal := func(want, is string) bool { return want == "" || want == is }
	switch {
	case q.server && r.User != user.APIServerUser && (r.User != "" || q.own):
		return false
	case q.own && !q.server && r.User != q.user: // its own requests only if they are meant
		return false
	case r.Subresource == noSub && q.sub != "", r.Subresource != noSub && !equal(r.Subresource, q.sub):
		return false
	}
	return equal(r.Verb, q.verb) && equal(r.Group, q.group) && equal(r.Resource, q.resource) && (q.server || equal(r.User, q.user)) &&
		strings.HasPrefix(q.agent, r.UserAgent)
}

// meansObject compares the object of a request.
func (r *Rule) meansObject(q *request) bool {
	if r.Name != "" {
		q.readName()
	}
	return (r.Namespace == "" || r.Namespace == q.namespace) && (r.Name == "" || r.Name == q.name)
}

// asks lets the rule's function decide, if it has one.
func (r *Rule) asks(what func() Held) bool { return r.When == nil || r.When(what()) }

// held describes the request.
func (q *request) held() Held {
	q.readName()
	return Held{
		Verb: q.verb, Group: q.group, Resource: q.resource, Subresource: q.sub,
		Namespace: q.namespace, Name: q.name, GenerateName: q.generateName, UserAgent: q.agent,
	}
}

// readName reads the name of an object that is being created.
func (q *request) readName() {
	if q.creates != nil {
		m := metadataInBody(q.creates)
		q.name, q.generateName, q.creates = m.Name, m.GenerateName, nil
	}
}

// metadataInBody reads the metadata of the object that a request brings, and leaves the body as it was.
func metadataInBody(req *http.Request) metav1.ObjectMeta {
	if req.Body == nil {
		return metav1.ObjectMeta{}
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, largestBody+1))
	req.Body = &partly{Reader: io.MultiReader(bytes.NewReader(body), failing{err}, req.Body), Closer: req.Body}
	if err != nil {
		return metav1.ObjectMeta{}
	}
	return metadataIn(req.Header.Get("Content-Type"), body)
}

// partly is a body that was read in part.
type partly struct {
	io.Reader
	io.Closer
}

// failing returns an error that reading gave before, if there was one.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// find returns the first rule that applies to the request, which is hit then.
func (i *Injector) find(q *request) *rule {
	for _, r := range i.inForce(HTTP) {
		_, requests := r.action.(requestAction)
		_, whole := r.action.(answerAction)
		if !requests && r.hold == nil || r.Type != "" || q.verb == verbWatch && (r.hold != nil || whole) {
			continue // is about events, or about answers that end
		}
		if r.matches(q) && r.meansObject(q) && r.asks(q.held) && r.hit() {
			return r
		}
	}
	return nil
}

// Handler returns a handler that applies the rules to the requests for next. Without rules for them, it costs a look at the
// path of a request. Watches are taken apart into events, which are copied, and are not compressed. A watch in another form
// than JSON and protobuf passes untouched.
//
// For a server that is not of package envtest, next is a reverse proxy to it, see NewProxy.
func (i *Injector) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		q := requestOf(req)
		switch {
		case q == nil || isUpgrade(req):
			next.ServeHTTP(w, req)
			return
		case q.verb != verbWatch && len(i.inForce(HTTP)) == 0:
			next.ServeHTTP(w, req)
			return
		}
		if r := i.find(q); r != nil {
			if a, ok := r.action.(requestAction); ok {
				a.serve(w, req, i.after(q, next), r.over)
			} else {
				r.hold.serve(w, req, q, next)
			}
			return
		}
		i.after(q, next).ServeHTTP(w, req)
	})
}

// after is what comes behind the rules for requests.
func (i *Injector) after(q *request, next http.Handler) http.Handler {
	if q.verb != verbWatch {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { i.watch(q, w, req, next) })
}

// isUpgrade says whether the connection will not speak HTTP.
func isUpgrade(req *http.Request) bool {
	return strings.Contains(strings.ToLower(req.Header.Get("Connection")), "upgrade")
}
