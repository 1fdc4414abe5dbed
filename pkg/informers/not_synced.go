// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// NotSyncedError says why an informer does not hold what the API server has. Reads, GetInformer and
// IndexField return it, and it is a value of its own where nothing returns an error. Match a pointer
// to this type with errors.As. It wraps Err. apierrors.IsTimeout recognizes it, unless the kind is
// not served, or is an optional one that is dormant: then meta.IsNoMatchError does; or cannot be watched: then
// apierrors.IsMethodNotSupported does. A value never changes.
type NotSyncedError struct {
	// Key is the kind and the representation that is cached. Namespace is the namespace to which
	// the informer is restricted; it is empty for all namespaces, and for a cluster-scoped kind.
	Key
	Namespace string
	// Resource serves the kind. It is empty if the API server does not serve it, or serves an optional kind
	// without the verbs list and watch.
	Resource schema.GroupVersionResource

	Cause Cause
	// Object is the key of the object that cannot be decoded, or for which a function of the user
	// failed. It is empty for other causes, and if it is unknown. Objects is the number of objects
	// that are missing because such a function failed.
	Object  types.NamespacedName
	Objects int
	// Since is the time of the first attempt that failed since the last success, and Attempts is
	// the number of attempts that failed since then. Both are zero if none has failed.
	Since    time.Time
	Attempts int
	// Err is the last error. It is nil if nothing has failed.
	Err error

	// gaveUp says which wait ended, and why. It is empty if nobody waited.
	gaveUp string
}

// Error implements error. The text names the kind, the scope and the cause, and says what to do.
func (e *NotSyncedError) Error() string {
	text := strings.Builder{}
	switch {
	case e.Objects > 0 && e.Cause == IndexFailed:
		fmt.Fprintf(&text, "an index of the cache of %s lacks %s, because %s: %v", e.subject(), plural(e.Objects, "object"), e.Cause, e.Err)
		return text.String()
	case e.Objects > 0:
		fmt.Fprintf(&text, "the cache of %s lacks %s, because %s: %v", e.subject(), plural(e.Objects, "object"), e.Cause, e.Err)
		return text.String()
	case e.unmapped() && e.Err != nil: // no informer can be made
		return e.Err.Error()
	case e.gaveUp != "":
		text.WriteString(e.gaveUp)
	default:
		fmt.Fprintf(&text, "the cache of %s has not synced", e.subject())
	}
	if e.Err == nil {
		text.WriteString(": the first list is not complete yet, no error so far")
		return text.String()
	}
	fmt.Fprintf(&text, ": %s (%s since %s): %v", e.Cause, plural(e.Attempts, "attempt"), e.Since.UTC().Format(time.RFC3339), e.Err)
	if e.Cause == Forbidden {
		fmt.Fprintf(&text, "; grant %s", e.rule())
	}
	if e.Cause == NotWatchable {
		fmt.Fprintf(&text, "; %s", readLive)
	}
	return text.String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Unwrap returns Err.
func (e *NotSyncedError) Unwrap() error { return e.Err }

// Status implements apierrors.APIStatus.
func (e *NotSyncedError) Status() metav1.Status {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: e.Error()}
	switch {
	case e.Cause == NotWatchable:
		return notAllowed(status.Message)
	case e.unmapped() && e.Cause == Unavailable:
		status.Code, status.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	case e.unmapped() && e.Cause == NotServed:
		status.Code, status.Reason = http.StatusInternalServerError, metav1.StatusReasonUnknown
	}
	return status
}

// notAllowed returns the status of a 405.
func notAllowed(message string) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed, Message: message}
}

// unmapped reports whether there is no informer that runs, because the kind has no resource to list and watch.
func (e *NotSyncedError) unmapped() bool {
	switch e.Cause {
	case NotServed, Unavailable, NotWatchable, Timeout:
		return e.Resource.Empty()
	}
	return false
}

// subject names the kind and the scope.
func (e *NotSyncedError) subject() string { return describe(e.Key, e.Namespace) }

// Manifest returns the Role or ClusterRole that is missing, as YAML to be applied with kubectl, and behind it the
// binding to the user whom the API server has refused. If its answer names no user, a RoleBinding or ClusterRoleBinding
// must bind the role to the program's account. It is empty unless the cause is Forbidden.
func (e *NotSyncedError) Manifest() string {
	if e.Cause != Forbidden {
		return ""
	}
	kind, namespace := e.role()
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata:
  name: cache-%s%s
rules:
- apiGroups: ['%s']
  resources: [%s]
  verbs: [list, watch]
`, kind, e.Resource.Resource, namespace, e.Resource.Group, e.Resource.Resource) + e.binding()
}

// refusedUser is how a 403 names the user.
var refusedUser = regexp.MustCompile(`User ("(?:[^"\\]|\\.)+") cannot `)

// binding returns the binding of the role to the user that was refused; empty if the error names none. Each user has
// a binding of its own: applying it takes the role from nobody.
func (e *NotSyncedError) binding() string {
	if e.Err == nil {
		return ""
	}
	found := refusedUser.FindStringSubmatch(e.Err.Error())
	if found == nil {
		return ""
	}
	user, err := strconv.Unquote(found[1])
	if err != nil {
		return ""
	}
	kind, namespace := e.role()
	subject := "kind: User\n  apiGroup: rbac.authorization.k8s.io\n  name: " + strconv.Quote(user)
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		in, name, _ := strings.Cut(account, ":")
		subject = fmt.Sprintf("kind: ServiceAccount\n  namespace: %q\n  name: %q", in, name)
		user = in + "-" + name
	}
	return fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: %sBinding
metadata:
  name: %q%s
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: %s
  name: cache-%s
subjects:
- %s
`, kind, "cache-"+e.Resource.Resource+"-"+strings.NewReplacer("/", "-", "%", "-").Replace(user), namespace, kind, e.Resource.Resource, subject)
}

// rule is the role of the Manifest in one line of YAML, which a log keeps as it is.
func (e *NotSyncedError) rule() string {
	kind, namespace := e.role()
	return fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: %s, metadata: {name: cache-%s%s}, rules: [{apiGroups: ['%s'], resources: [%s], verbs: [list, watch]}]}",
		kind, e.Resource.Resource, strings.ReplaceAll(namespace, "\n ", ","), e.Resource.Group, e.Resource.Resource)
}

// role returns the kind of role that is missing, and the line of its metadata with the namespace.
func (e *NotSyncedError) role() (kind, namespace string) {
	if e.Namespace == "" {
		return "ClusterRole", ""
	}
	return "Role", "\n  namespace: " + e.Namespace
}

// describe names a kind and a scope in messages.
func describe(key Key, namespace string) string {
	if namespace == "" {
		return key.String()
	}
	return fmt.Sprintf("%s in namespace %q", key, namespace)
}
