// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/tokens"
)

// Access is what the server knows about users and their rights. Reviews answer from it, and it decides about rights to
// grant, approve or sign. It is safe for concurrent use.
type Access struct {
	Authorizer    authorizer.Authorizer
	Authenticator authenticator.Request // of bearer tokens, for TokenReview
	Audiences     []string              // of a token that names no audience
	Rules         RuleResolver
	Keys          *tokens.TokenKeys // Sign and check the tokens of service accounts
	Now           func() time.Time  // by which the expiry of these tokens is judged; nil is the time
}

// RuleResolver finds rules of RBAC.
type RuleResolver interface {
	// RulesFor returns the rules that the bindings in the namespace, and those of the whole cluster, give to the user.
	// Beside an error it returns a part of the rules.
	RulesFor(who user.Info, namespace string) ([]rbacv1.PolicyRule, error)
	// RulesOf returns the rules of a role to which a binding in the namespace refers.
	RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)
}
