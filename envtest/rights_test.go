// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// impersonate is a client that acts as a user.
func impersonate(name string, groups ...string) kubernetes.Interface {
	GinkgoHelper()
	config := rest.CopyConfig(target.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// permit lets a user do what the rules say in a namespace, by a Role of the name "granted", and returns when it is in force.
func permit(ctx context.Context, namespace, user string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	_, err := target.kube.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "granted"}, Rules: rules,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = target.kube.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "granted"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "granted"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() bool {
		return review(ctx, &authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rules[0].Verbs[0], Group: rules[0].APIGroups[0], Resource: rules[0].Resources[0],
		}}).Allowed
	}).WithContext(ctx).WithPolling(fast).Should(BeTrue())
}

// review asks what somebody may do.
func review(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	GinkgoHelper()
	answer, err := target.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: *spec}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return answer.Status
}

// readPods is a rule.
var readPods = rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}

var _ = Describe("a review of access", func() {
	It("says what a user may do, and why", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		permit(ctx, namespace, "jane", readPods)
		pods := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "pods", Name: "one"}
		Expect(review(ctx, &authorizationv1.SubjectAccessReviewSpec{User: "jane", ResourceAttributes: pods})).To(Equal(
			authorizationv1.SubjectAccessReviewStatus{Allowed: true,
				Reason: `RBAC: allowed by RoleBinding "granted/` + namespace + `" of Role "granted" to User "jane"`}))
		Expect(review(ctx, &authorizationv1.SubjectAccessReviewSpec{User: "john", ResourceAttributes: pods})).To(BeZero())
		Expect(review(ctx, &authorizationv1.SubjectAccessReviewSpec{User: "john", Groups: []string{"system:masters"}, ResourceAttributes: pods}).Allowed).To(BeTrue())
		Expect(review(ctx, &authorizationv1.SubjectAccessReviewSpec{User: "john", Groups: []string{"system:authenticated"},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/healthz"}}).Allowed).To(BeTrue())

		local, err := target.kube.AuthorizationV1().LocalSubjectAccessReviews(namespace).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane", ResourceAttributes: pods},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(local.Status.Allowed).To(BeTrue())

		jane := impersonate("jane", "system:authenticated")
		own, err := jane.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: pods},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred(), "every user may ask about themselves")
		Expect(own.Status.Allowed).To(BeTrue())
		rules, err := jane.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(rules.Status.Incomplete).To(BeFalse())
		Expect(rules.Status.ResourceRules).To(ContainElement(authorizationv1.ResourceRule{
			Verbs: readPods.Verbs, APIGroups: readPods.APIGroups, Resources: readPods.Resources,
		}))
		Expect(rules.Status.NonResourceRules).To(ContainElement(HaveField("NonResourceURLs", ContainElement("/healthz"))))
	}, SpecTimeout(patience))

	It("refuses questions that make no sense", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		pods, path := &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}, &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/"}
		for _, wrong := range []struct {
			asked  authorizationv1.SubjectAccessReview
			causes []string
		}{
			{authorizationv1.SubjectAccessReview{}, []string{"spec.resourceAttributes", "spec.user"}},
			{authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "a", ResourceAttributes: pods, NonResourceAttributes: path}},
				[]string{"spec.nonResourceAttributes"}},
			{authorizationv1.SubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "a", ResourceAttributes: pods}},
				[]string{"metadata"}},
		} {
			_, err := target.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &wrong.asked, metav1.CreateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(causes(err)).To(Equal(wrong.causes))
		}
		_, err := target.kube.AuthorizationV1().LocalSubjectAccessReviews(namespace).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "a", ResourceAttributes: pods},
		}, metav1.CreateOptions{})
		Expect(causes(err)).To(Equal([]string{"spec.resourceAttributes.namespace"}))
		_, err = target.kube.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{}, metav1.CreateOptions{})
		Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		_, err = impersonate("jane").AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "a", ResourceAttributes: pods}}, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})

var _ = Describe("impersonation", func() {
	It("shows who one is then, and needs the right", func(ctx SpecContext) {
		me, err := impersonate("jane", "readers").AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeFalse(), "%v", err)
		Expect(err).NotTo(HaveOccurred())
		Expect(me.Status.UserInfo.Username).To(Equal("jane"))
		Expect(me.Status.UserInfo.Groups).To(ConsistOf("readers", "system:authenticated"))

		config := rest.CopyConfig(target.config)
		config.Impersonate.UserName, config.Impersonate.Extra = "jane", map[string][]string{"scopes": {"view"}}
		me, err = kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(me.Status.UserInfo.Extra).To(HaveKeyWithValue("scopes", authenticationv1.ExtraValue{"view"}))
	}, SpecTimeout(patience))
})

var _ = Describe("RBAC", func() {
	role := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	}
	writeRoles := rbacv1.PolicyRule{Verbs: []string{"create", "update"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}}

	It("lets nobody write a role with rights that they do not have", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		permit(ctx, namespace, "jane", writeRoles, readPods)
		roles := impersonate("jane").RbacV1().Roles(namespace)
		_, err := roles.Create(ctx, role("more", rbacv1.PolicyRule{Verbs: []string{"get", "delete"}, APIGroups: []string{""}, Resources: []string{"pods", "secrets"}}), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n" +
			`{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}` + "\n" + `{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}`)))
		own, err := roles.Create(ctx, role("own", readPods), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		own.Rules[0].Verbs = []string{"*"}
		_, err = roles.Update(ctx, own, metav1.UpdateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("lets nobody bind a role with rights that they do not have, unless they may bind it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		_, err := target.kube.RbacV1().Roles(namespace).Create(ctx, role("more", rbacv1.PolicyRule{
			Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"pods"}}), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = target.kube.RbacV1().Roles(namespace).Create(ctx, role("bound", rbacv1.PolicyRule{
			Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"secrets"}}), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		permit(ctx, namespace, "jane", writeRoles, readPods, rbacv1.PolicyRule{
			Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, ResourceNames: []string{"bound"}})
		bind := func(name string) error {
			_, err := impersonate("jane").RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "john"}},
			}, metav1.CreateOptions{})
			return err
		}
		Eventually(func() error { return bind("bound") }).WithContext(ctx).WithPolling(fast).Should(Succeed())
		Expect(apierrors.IsForbidden(bind("more"))).To(BeTrue())
		Expect(apierrors.IsNotFound(bind("missing"))).To(BeTrue())
		_, err = impersonate("john", "system:masters").RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "early"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "missing"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred(), "an administrator may bind what is not there yet")
	}, SpecTimeout(patience))
})

var _ = Describe("the signer of a CertificateSigningRequest", func() {
	It("must be one for whom the user may approve", func(ctx SpecContext) {
		objects, obj := sampleOf("certificatesigningrequests").object(ctx)
		_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		user := obj.GetName()
		approver := func(name string, rules ...rbacv1.PolicyRule) {
			made, err := target.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = target.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: made.Name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(target.kube.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
				Expect(target.kube.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			})
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(objects.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})).To(Succeed())
		})
		approver(user+".requests", rbacv1.PolicyRule{Verbs: []string{"get", "update"}, APIGroups: []string{certificatesv1.GroupName},
			Resources: []string{"certificatesigningrequests", "certificatesigningrequests/approval"}})
		approve := func() error {
			requests := impersonate(user).CertificatesV1().CertificateSigningRequests()
			csr, err := requests.Get(ctx, obj.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
			_, err = requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
			return err
		}
		Eventually(approve).WithContext(ctx).WithPolling(fast).Should(MatchError(ContainSubstring(
			`user not permitted to approve requests with signerName "example.com/signer"`)))
		approver(user+".signer", rbacv1.PolicyRule{Verbs: []string{"approve"}, APIGroups: []string{certificatesv1.GroupName},
			Resources: []string{"signers"}, ResourceNames: []string{"example.com/*"}})
		Eventually(approve).WithContext(ctx).WithPolling(fast).Should(Succeed())
	}, SpecTimeout(patience))

	It("makes no administrators", func(ctx SpecContext) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"system:masters"}}}, key)
		Expect(err).NotTo(HaveOccurred())
		_, err = target.kube.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "masters"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			},
		}, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))
})

var _ = Describe("the token of a ServiceAccount", func() {
	newAccount := func(ctx context.Context) *corev1.ServiceAccount {
		GinkgoHelper()
		account, err := target.kube.CoreV1().ServiceAccounts(newNamespace(ctx)).Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return account
	}
	request := func(ctx context.Context, account *corev1.ServiceAccount, spec authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequest, error) {
		return target.kube.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	}
	whose := func(ctx context.Context, token string, audiences ...string) authenticationv1.TokenReviewStatus {
		GinkgoHelper()
		answer, err := target.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return answer.Status
	}

	It("is the account's, until the account is gone", func(ctx SpecContext) {
		account := newAccount(ctx)
		made, err := request(ctx, account, authenticationv1.TokenRequestSpec{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Name).To(Equal("robot"))
		Expect(made.UID).To(Equal(account.UID))
		Expect(made.Spec.ExpirationSeconds).To(Equal(ptr.To[int64](3600)))
		Expect(made.Spec.Audiences).NotTo(BeEmpty())
		Expect(made.Status.ExpirationTimestamp.IsZero()).To(BeFalse())

		config := rest.AnonymousClientConfig(target.config)
		config.BearerToken = made.Status.Token
		me, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		info := me.Status.UserInfo
		Expect(info.Username).To(Equal("system:serviceaccount:" + account.Namespace + ":robot"))
		Expect(info.UID).To(Equal(string(account.UID)))
		Expect(info.Groups).To(ConsistOf("system:serviceaccounts", "system:serviceaccounts:"+account.Namespace, "system:authenticated"))
		Expect(info.Extra).To(HaveKeyWithValue("authentication.kubernetes.io/credential-id", ConsistOf(HavePrefix("JTI="))))

		status := whose(ctx, made.Status.Token)
		Expect(status.Authenticated).To(BeTrue())
		Expect(status.User.Username).To(Equal(info.Username))
		Expect(status.Audiences).To(Equal(made.Spec.Audiences))
		Expect(target.kube.CoreV1().ServiceAccounts(account.Namespace).Delete(ctx, "robot", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() bool { return whose(ctx, made.Status.Token).Authenticated }).WithContext(ctx).WithPolling(fast).Should(BeFalse())
	}, SpecTimeout(patience))

	It("is for its audience alone", func(ctx SpecContext) {
		made, err := request(ctx, newAccount(ctx), authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}, ExpirationSeconds: ptr.To[int64](600)})
		Expect(err).NotTo(HaveOccurred())
		Expect(whose(ctx, made.Status.Token).Authenticated).To(BeFalse())
		status := whose(ctx, made.Status.Token, "vault", "other")
		Expect(status.Authenticated).To(BeTrue(), status.Error)
		Expect(status.Audiences).To(Equal([]string{"vault"}))
		config := rest.AnonymousClientConfig(target.config)
		config.BearerToken = made.Status.Token
		_, err = kubernetes.NewForConfigOrDie(config).Discovery().ServerGroups()
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
		forged := made.Status.Token[:strings.LastIndex(made.Status.Token, ".")] + ".AAAA"
		Expect(whose(ctx, forged, "vault").Authenticated).To(BeFalse())
		Expect(whose(ctx, "nonsense").Error).To(ContainSubstring("invalid bearer token"))
	}, SpecTimeout(patience))

	It("lives no longer than what it is bound to", func(ctx SpecContext) {
		account := newAccount(ctx)
		secrets := target.kube.CoreV1().Secrets(account.Namespace)
		secret, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		ref := &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: "bound", UID: secret.UID}
		made, err := request(ctx, account, authenticationv1.TokenRequestSpec{BoundObjectRef: ref})
		Expect(err).NotTo(HaveOccurred())
		Expect(whose(ctx, made.Status.Token).Authenticated).To(BeTrue())
		Expect(secrets.Delete(ctx, "bound", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() string { return whose(ctx, made.Status.Token).Error }).WithContext(ctx).WithPolling(fast).
			Should(ContainSubstring("service account token has been invalidated"))

		_, err = request(ctx, account, authenticationv1.TokenRequestSpec{BoundObjectRef: ref})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		ref.Kind = "ConfigMap"
		_, err = request(ctx, account, authenticationv1.TokenRequestSpec{BoundObjectRef: ref})
		Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		_, err = request(ctx, account, authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](1)})
		Expect(causes(err)).To(Equal([]string{"spec.expirationSeconds"}))
		account.Name = "nobody"
		_, err = request(ctx, account, authenticationv1.TokenRequestSpec{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	for kind, resource := range map[string]string{"Pod": "pods", "Secret": "secrets", "Node": "nodes"} {
		It("is not made for what is not there, which is named: "+kind, func(ctx SpecContext) {
			_, err := request(ctx, newAccount(ctx), authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: kind, APIVersion: "v1", Name: "nosuch"},
			})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(resource + ` "nosuch" not found`))
		}, SpecTimeout(patience))
	}

	It("can be checked by who reads the keys of the issuer", func(ctx SpecContext) {
		var about struct {
			Issuer  string
			KeySet  string   `json:"jwks_uri"`
			Signing []string `json:"id_token_signing_alg_values_supported"`
		}
		Expect(json.Unmarshal(fetch(ctx, "/.well-known/openid-configuration", "application/json"), &about)).To(Succeed())
		Expect(about.KeySet).To(HaveSuffix("/openid/v1/jwks"))
		Expect(about.Signing).NotTo(BeEmpty())
		var got int
		var set struct{ Keys []map[string]string }
		Expect(json.Unmarshal(fetch(ctx, "/openid/v1/jwks", "application/jwk-set+json"), &set)).To(Succeed())
		for path, form := range map[string]string{"/.well-known/openid-configuration": "application/json", "/openid/v1/jwks": "application/jwk-set+json"} {
			for accept, code := range map[string]int{form: 200, "*/*": 200, "text/html, " + form + ";q=0.9": 200, "text/plain": 406, "application/*": 406} {
				result := target.kube.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", accept).Do(ctx).StatusCode(&got)
				Expect(got).To(Equal(code), "%s as %s: %v", path, accept, result.Error())
			}
		}
		made, err := request(ctx, newAccount(ctx), authenticationv1.TokenRequestSpec{})
		Expect(err).NotTo(HaveOccurred())
		header, claims := tokenParts(made.Status.Token)
		Expect(claims).To(HaveKeyWithValue("iss", about.Issuer))
		Expect(set.Keys).To(ContainElement(And(HaveKeyWithValue("kid", header["kid"]), HaveKeyWithValue("alg", header["alg"]))))
	}, SpecTimeout(patience))
})

// tokenParts reads a token without checking it.
func tokenParts(token string) (header, claims map[string]any) {
	GinkgoHelper()
	parts := strings.Split(token, ".")
	Expect(parts).To(HaveLen(3))
	for i, into := range []*map[string]any{&header, &claims} {
		data, err := base64.RawURLEncoding.DecodeString(parts[i])
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(data, into)).To(Succeed())
	}
	return header, claims
}
