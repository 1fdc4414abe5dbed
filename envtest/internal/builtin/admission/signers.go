// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/certificates"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// signers are the admission plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction: who approves a
// request or signs it must be allowed to do so for its signer.
type signers struct{ access *kind.Access }

func (s signers) approves(ctx context.Context, a admission.Attributes) error {
	signer := kind.MustBe[*certificatesv1.CertificateSigningRequest](a.GetOldObject()).Spec.SignerName
	if s.may(ctx, a.GetUserInfo(), "approve", signer) {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q", signer))
}

func (s signers) signs(ctx context.Context, a admission.Attributes) error {
	csr, old := kind.MustBe[*certificatesv1.CertificateSigningRequest](a.GetObject()), kind.MustBe[*certificatesv1.CertificateSigningRequest](a.GetOldObject())
	if slices.Equal(csr.Status.Certificate, old.Status.Certificate) && apiequality.Semantic.DeepEqual(csr.Status.Conditions, old.Status.Conditions) {
		return nil
	}
	if s.may(ctx, a.GetUserInfo(), "sign", old.Spec.SignerName) {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
}

// may asks the authorizer about a verb on a signer, and on all signers of its domain.
func (s signers) may(ctx context.Context, who user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, _ := s.access.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: who, Verb: verb, Name: name, APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", ResourceRequest: true,
		})
		if decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

// noMasters keeps a client certificate from making its user an administrator.
func noMasters(_ context.Context, a admission.Attributes) error {
	csr := kind.MustBe[*certificatesv1.CertificateSigningRequest](a.GetObject())
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", certificates.CheckRequest(csr.Spec.Request)))
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(request.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed", csr.Spec.SignerName, user.SystemPrivilegedGroup))
	}
	return nil
}
