// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

const (
	shortestToken = 10 * 60 // seconds
	longestToken  = 1 << 32
	defaultToken  = 60 * 60

	// tokenLeeway is how far clocks may differ, and how long a token outlives what it is bound to.
	tokenLeeway = time.Minute
)

var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// DefaultTokenRequest asks for a token of an hour.
func DefaultTokenRequest(r *authenticationv1.TokenRequest) {
	kind.Missing(&r.Spec.ExpirationSeconds, defaultToken)
}

// claims are what a token says.
type claims struct {
	Issuer     string        `json:"iss"`
	Subject    string        `json:"sub"`
	Audience   audience      `json:"aud"`
	Expiry     int64         `json:"exp"`
	NotBefore  int64         `json:"nbf"`
	IssuedAt   int64         `json:"iat"`
	ID         string        `json:"jti"`
	Kubernetes accountClaims `json:"kubernetes.io"`
}

// audience is one name or a list of names.
type audience []string

func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// accountClaims say whose a token is, and what it is bound to.
type accountClaims struct {
	Namespace string    `json:"namespace"`
	Account   boundRef  `json:"serviceaccount"`
	Pod       *boundRef `json:"pod,omitempty"`
	Secret    *boundRef `json:"secret,omitempty"`
	Node      *boundRef `json:"node,omitempty"`
}

type boundRef struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

func refTo(obj metav1.Object) *boundRef {
	return &boundRef{Name: obj.GetName(), UID: string(obj.GetUID())}
}

// Accounts makes and checks the tokens of service accounts. It asks the stores of one server whether what a token is bound to is
// still there.
type Accounts struct {
	access *kind.Access
	peer   func(schema.GroupResource) *kind.Store
}

func NewAccounts(access *kind.Access, peer func(schema.GroupResource) *kind.Store) Accounts {
	return Accounts{access, peer}
}

// get reads an object of the core group, which the caller does not change. The context of a request names the resource that the request is for; the store would name
// that one in its errors.
func (a Accounts) get(ctx context.Context, resource, namespace, name string) (metav1.Object, error) {
	ctx = request.WithRequestInfo(request.WithNamespace(ctx, namespace), &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIVersion: "v1", Namespace: namespace, Resource: resource, Name: name,
	})
	obj, err := kind.Cached[runtime.Object](ctx, a.peer(corev1.Resource(resource)), name)
	if err != nil {
		return nil, err
	}
	return obj.(metav1.Object), nil
}

// tokenREST serves serviceaccounts/token.
type tokenREST struct{ Accounts }

var (
	_ rest.NamedCreater             = tokenREST{}
	_ rest.GroupVersionKindProvider = tokenREST{}
)

func AttachServiceAccount(a *kind.Served) (map[string]rest.Storage, error) {
	return map[string]rest.Storage{"token": tokenREST{Accounts{a.Access, a.Peer}}}, nil
}

// GroupVersionKind is of another group than the resource.
func (r tokenREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return tokenRequestKind
}

func (r tokenREST) New() runtime.Object { return &authenticationv1.TokenRequest{} }

// Destroy does nothing: tokens are not kept.
func (r tokenREST) Destroy() {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate lets a request name the UID of its account.
func (r tokenREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create makes a token.
func (r tokenREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	req, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", obj))
	}
	namespace := request.NamespaceValue(ctx)
	account, err := r.account(ctx, namespace, name, req)
	if err != nil {
		return nil, err
	}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = r.access.Audiences
	}
	now := time.Now()
	req.Name, req.Namespace, req.UID = account.GetName(), account.GetNamespace(), account.GetUID()
	req.CreationTimestamp, req.Status = metav1.NewTime(now), authenticationv1.TokenRequestStatus{}
	seconds := *req.Spec.ExpirationSeconds
	if errs := checkExpiration(seconds); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequestKind.GroupKind(), "", errs)
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	said := accountClaims{Namespace: namespace, Account: *refTo(account)}
	if err := r.bind(ctx, &said, req.Spec.BoundObjectRef); err != nil {
		return nil, err
	}
	token, err := r.access.Keys.Sign(claims{
		Issuer: r.access.Keys.Issuer, Subject: serviceaccount.MakeUsername(namespace, name), Audience: req.Spec.Audiences,
		Expiry: now.Unix() + seconds, NotBefore: now.Unix(), IssuedAt: now.Unix(), ID: string(uuid.NewUUID()), Kubernetes: said,
	})
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	req.Status = authenticationv1.TokenRequestStatus{
		Token: token, ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)),
	}
	return req, nil
}

// account finds the account of a request, whose metadata must fit.
func (r tokenREST) account(ctx context.Context, namespace, name string, req *authenticationv1.TokenRequest) (metav1.Object, error) {
	for _, part := range []struct{ name, said, want string }{{"name", req.Name, name}, {"namespace", req.Namespace, namespace}} {
		if part.said != "" && part.said != part.want {
			return nil, apierrors.NewInvalid(tokenRequestKind.GroupKind(), name, field.ErrorList{field.Invalid(
				field.NewPath("metadata", part.name), part.said, "must match the service account "+part.name+" if specified")})
		}
	}
	account, err := r.get(ctx, "serviceaccounts", namespace, name)
	if err != nil {
		return nil, err
	}
	if req.UID != "" && req.UID != account.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: authenticationv1.GroupName, Resource: "TokenRequest"}, name, fmt.Errorf(
			"the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID, account.GetUID()))
	}
	return account, nil
}

func checkExpiration(seconds int64) field.ErrorList {
	path := kind.SpecPath("expirationSeconds")
	switch {
	case seconds < shortestToken:
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration less than 10 minutes")}
	case seconds > longestToken:
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// bind says in a token what it is bound to.
func (r tokenREST) bind(ctx context.Context, said *accountClaims, ref *authenticationv1.BoundObjectReference) error {
	if ref == nil {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	resource, known := map[string]string{"Pod": "pods", "Secret": "secrets", "Node": "nodes"}[gvk.Kind]
	if gvk.Group != "" || !known {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	obj, err := r.get(ctx, resource, said.Namespace, ref.Name)
	if err != nil {
		return err
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		if o.Spec.ServiceAccountName != said.Account.Name {
			return apierrors.NewBadRequest(fmt.Sprintf(
				"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", said.Account.Name))
		}
		said.Pod = refTo(o)
		if said.Node, err = r.nodeOf(ctx, o); err != nil {
			return err
		}
	case *corev1.Secret:
		said.Secret = refTo(o)
	case *corev1.Node:
		said.Node = refTo(o)
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// nodeOf names the node of a Pod, if it has one.
func (r tokenREST) nodeOf(ctx context.Context, pod *corev1.Pod) (*boundRef, error) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	node, err := r.get(ctx, "nodes", "", pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		return &boundRef{Name: pod.Spec.NodeName}, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return refTo(node), nil
}

// AuthenticateToken implements authenticator.Token: it knows the tokens that tokenREST makes, as long as they and what they are
// bound to live.
func (a Accounts) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if strings.Count(token, ".") != 2 {
		return nil, false, nil
	}
	payload, err := a.access.Keys.Open(token)
	var said claims
	if err == nil {
		err = json.Unmarshal(payload, &said)
	}
	if err != nil || said.Issuer != a.access.Keys.Issuer {
		return nil, false, err
	}
	audiences := authenticator.Audiences(said.Audience)
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = a.access.Audiences
	}
	if audiences = wanted.Intersect(audiences); len(audiences) == 0 {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q", []string(said.Audience), []string(wanted))
	}
	if err := a.lives(ctx, &said); err != nil {
		return nil, false, err
	}
	info := &serviceaccount.ServiceAccountInfo{
		Namespace: said.Kubernetes.Namespace, Name: said.Kubernetes.Account.Name, UID: said.Kubernetes.Account.UID,
		CredentialID: "JTI=" + said.ID,
	}
	if pod := said.Kubernetes.Pod; pod != nil {
		info.PodName, info.PodUID = pod.Name, pod.UID
	}
	if node := said.Kubernetes.Node; node != nil {
		info.NodeName, info.NodeUID = node.Name, node.UID
	}
	return &authenticator.Response{User: info.UserInfo(), Audiences: audiences}, true, nil
}

// lives says why a token counts no more.
func (a Accounts) lives(ctx context.Context, said *claims) error {
	now := time.Now()
	judged := now
	if a.access.Now != nil {
		judged = a.access.Now()
	}
	switch {
	case judged.Add(-tokenLeeway).Unix() > said.Expiry:
		return errors.New("service account token has expired")
	case judged.Add(tokenLeeway).Unix() < said.NotBefore:
		return errors.New("service account token is not valid yet")
	}
	k := &said.Kubernetes
	account, err := a.get(ctx, "serviceaccounts", k.Namespace, k.Account.Name)
	switch {
	case err != nil:
		return err
	case string(account.GetUID()) != k.Account.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.GetUID(), k.Account.UID)
	case gone(account, now):
		return fmt.Errorf("service account %s/%s has been deleted", k.Namespace, k.Account.Name)
	}
	for _, bound := range []struct {
		resource, kind string
		ref            *boundRef
	}{{"secrets", "secret", k.Secret}, {"pods", "pod", k.Pod}, {"nodes", "node", k.Node}} {
		if bound.ref == nil || bound.resource == "nodes" && k.Pod != nil {
			continue
		}
		obj, err := a.get(ctx, bound.resource, k.Namespace, bound.ref.Name)
		switch {
		case err != nil || gone(obj, now):
			return errors.New("service account token has been invalidated")
		case string(obj.GetUID()) != bound.ref.UID:
			return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", bound.kind, obj.GetUID(), bound.kind, bound.ref.UID)
		}
	}
	return nil
}

// gone reports whether an object has been deleted for a while, and only its finalizers keep it.
func gone(obj metav1.Object, now time.Time) bool {
	deleted := obj.GetDeletionTimestamp()
	return deleted != nil && deleted.Time.Before(now.Add(-tokenLeeway))
}
