// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reviews

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// Reviews are questions that are asked by creating an object: the answer is its status, and nothing is kept.

// reviewREST serves one kind of them.
type reviewREST struct {
	singular   string
	namespaced bool
	make       func() runtime.Object
	// answer checks a question and answers it. It calls admit between the two.
	answer func(ctx context.Context, question runtime.Object, admit func() error) (runtime.Object, error)
}

var (
	_ rest.Creater              = reviewREST{}
	_ rest.Scoper               = reviewREST{}
	_ rest.SingularNameProvider = reviewREST{}
)

func (r reviewREST) New() runtime.Object { return r.make() }

// Destroy does nothing: nothing is kept.
func (r reviewREST) Destroy() {}

func (r reviewREST) NamespaceScoped() bool { return r.namespaced }

func (r reviewREST) GetSingularName() string { return r.singular }

// Create answers a question.
func (r reviewREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return r.answer(ctx, obj, func() error {
		if validate == nil {
			return nil
		}
		return validate(ctx, obj.DeepCopyObject())
	})
}

// question turns a function over a concrete type into one over runtime.Object.
func question[T runtime.Object](answer func(context.Context, T, func() error) (runtime.Object, error)) func(context.Context, runtime.Object, func() error) (runtime.Object, error) {
	return func(ctx context.Context, obj runtime.Object, admit func() error) (runtime.Object, error) {
		q, ok := obj.(T)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %T: %T", q, obj))
		}
		return answer(ctx, q, admit)
	}
}

// reviewer answers the questions of one server.
type reviewer struct{ *kind.Access }

// ReviewStorages returns the storages of the reviews by group and resource.
func ReviewStorages(access *kind.Access) map[schema.GroupVersion]map[string]rest.Storage {
	a := reviewer{access}
	return map[schema.GroupVersion]map[string]rest.Storage{
		authenticationv1.SchemeGroupVersion: {
			"tokenreviews": reviewREST{
				singular: "tokenreview", make: func() runtime.Object { return &authenticationv1.TokenReview{} }, answer: question(a.whoseToken),
			},
			"selfsubjectreviews": reviewREST{
				singular: "selfsubjectreview", make: func() runtime.Object { return &authenticationv1.SelfSubjectReview{} }, answer: question(a.whoAmI),
			},
		},
		authorizationv1.SchemeGroupVersion: {
			"subjectaccessreviews": reviewREST{
				singular: "subjectaccessreview", make: func() runtime.Object { return &authorizationv1.SubjectAccessReview{} }, answer: question(a.mayThey),
			},
			"selfsubjectaccessreviews": reviewREST{
				singular: "selfsubjectaccessreview", make: func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} }, answer: question(a.mayI),
			},
			"localsubjectaccessreviews": reviewREST{
				singular: "localsubjectaccessreview", namespaced: true,
				make: func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} }, answer: question(a.mayTheyHere),
			},
			"selfsubjectrulesreviews": reviewREST{
				singular: "selfsubjectrulesreview", make: func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} }, answer: question(a.whatMayI),
			},
		},
	}
}

// whoseToken answers a TokenReview.
func (a reviewer) whoseToken(_ context.Context, review *authenticationv1.TokenReview, admit func() error) (runtime.Object, error) {
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if err := admit(); err != nil {
		return nil, err
	}
	audiences := review.Spec.Audiences
	if len(audiences) == 0 {
		audiences = a.Audiences
	}
	// The request has nothing but the token: nobody else's credential counts.
	req := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + review.Spec.Token}}}).
		WithContext(authenticator.WithAudiences(context.Background(), audiences))
	resp, ok, err := a.Authenticator.AuthenticateRequest(req)
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok}
	if err != nil {
		review.Status.Error = err.Error()
	}
	if resp == nil || resp.User == nil {
		return review, nil
	}
	if len(authenticator.Audiences(audiences).Intersect(resp.Audiences)) == 0 {
		return nil, apierrors.NewInternalError(fmt.Errorf("error validating audience: want %q, got %q", audiences, resp.Audiences))
	}
	review.Status.User, review.Status.Audiences = userInfo(resp.User), resp.Audiences
	return review, nil
}

// whoAmI answers a SelfSubjectReview.
func (a reviewer) whoAmI(ctx context.Context, _ *authenticationv1.SelfSubjectReview, admit func() error) (runtime.Object, error) {
	if err := admit(); err != nil {
		return nil, err
	}
	who, err := requester(ctx)
	if err != nil {
		return nil, err
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(who)},
	}, nil
}

// requester is the user of a request.
func requester(ctx context.Context) (user.Info, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return who, nil
}

func userInfo(who user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: map[string]authenticationv1.ExtraValue{}}
	for key, values := range who.GetExtra() {
		info.Extra[key] = values
	}
	return info
}

// mayThey answers a SubjectAccessReview.
func (a reviewer) mayThey(ctx context.Context, review *authorizationv1.SubjectAccessReview, admit func() error) (runtime.Object, error) {
	errs := append(checkAsked(&review.Spec), noMeta(review.ObjectMeta, "must be empty")...)
	if err := refused(errs, admit); err != nil {
		return nil, err
	}
	review.Status = a.decide(ctx, asked(&review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return review, nil
}

// mayTheyHere answers a LocalSubjectAccessReview.
func (a reviewer) mayTheyHere(ctx context.Context, review *authorizationv1.LocalSubjectAccessReview, admit func() error) (runtime.Object, error) {
	meta, spec := review.ObjectMeta, &review.Spec
	meta.Namespace = ""
	errs := append(checkAsked(spec), noMeta(meta, "must be empty except for namespace")...)
	if spec.ResourceAttributes != nil && spec.ResourceAttributes.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), spec.ResourceAttributes.Namespace, "must match metadata.namespace"))
	}
	if spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), spec.NonResourceAttributes, "disallowed on this kind of request"))
	}
	if err := refused(errs, admit); err != nil {
		return nil, err
	}
	review.Status = a.decide(ctx, asked(spec), spec.ResourceAttributes, spec.NonResourceAttributes)
	return review, nil
}

// mayI answers a SelfSubjectAccessReview.
func (a reviewer) mayI(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, admit func() error) (runtime.Object, error) {
	errs := append(checkAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes), noMeta(review.ObjectMeta, "must be empty")...)
	if err := refused(errs, admit); err != nil {
		return nil, err
	}
	who, err := requester(ctx)
	if err != nil {
		return nil, err
	}
	review.Status = a.decide(ctx, who, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return review, nil
}

// whatMayI answers a SelfSubjectRulesReview.
func (a reviewer) whatMayI(ctx context.Context, review *authorizationv1.SelfSubjectRulesReview, admit func() error) (runtime.Object, error) {
	who, err := requester(ctx)
	if err != nil {
		return nil, err
	}
	if review.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	if err := admit(); err != nil {
		return nil, err
	}
	rules, err := a.Rules.RulesFor(who, review.Spec.Namespace)
	answer := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}}
	if err != nil {
		answer.Status.EvaluationError = err.Error()
	}
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			answer.Status.ResourceRules = append(answer.Status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			answer.Status.NonResourceRules = append(answer.Status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	return answer, nil
}

// refused says why a question is invalid, or why admission refuses it. As by a kube-apiserver, the kind is not named.
func refused(errs field.ErrorList, admit func() error) error {
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
	}
	return admit()
}

// noMeta wants a question without metadata; clients cannot help the managed fields.
func noMeta(meta metav1.ObjectMeta, wrong string) field.ErrorList {
	meta.ManagedFields = nil
	if apiequality.Semantic.DeepEqual(meta, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), meta, wrong)}
}

func checkAsked(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := checkAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(kind.SpecPath("user"), spec.User, "at least one of user or group must be specified"))
	}
	return errs
}

func checkAttributes(resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) field.ErrorList {
	switch {
	case resource != nil && path != nil:
		return field.ErrorList{field.Invalid(kind.SpecPath("nonResourceAttributes"), path, "cannot be specified in combination with resourceAttributes")}
	case resource == nil && path == nil:
		return field.ErrorList{field.Invalid(kind.SpecPath("resourceAttributes"), path, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

// asked is the user that a review is about.
func asked(spec *authorizationv1.SubjectAccessReviewSpec) user.Info {
	who := &user.DefaultInfo{Name: spec.User, Groups: spec.Groups, UID: spec.UID}
	for key, values := range spec.Extra {
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[key] = values
	}
	return who
}

// decide asks the authorizer.
func (a reviewer) decide(
	ctx context.Context, who user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes,
) authorizationv1.SubjectAccessReviewStatus {
	record := authorizer.AttributesRecord{User: who}
	if resource != nil {
		record = resourceRecord(who, resource)
	} else {
		record.Verb, record.Path = path.Verb, path.Path
	}
	decision, reason, err := a.Authorizer.Authorize(ctx, record)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	var troubles []string
	if err != nil {
		troubles = append(troubles, err.Error())
	}
	status.EvaluationError = strings.Join(append(troubles, selectorTroubles(record)...), "; ")
	return status
}
