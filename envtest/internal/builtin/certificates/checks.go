// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The rules are those of kube-apiserver's pkg/apis/certificates/validation.

// signingWrites is what an update of a request may change.
type signingWrites struct{ approval, certificate bool }

// shortestCertificate is the shortest lifetime that may be asked for, in seconds.
const shortestCertificate = 600

var keyUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
	certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
	certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
	certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning,
	certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageSMIME, certificatesv1.UsageTimestamping,
}

// decisions are the conditions that stay once they are there, and are always true.
var decisions = []certificatesv1.RequestConditionType{
	certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
}

func validateSigningRequest(csr, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return checkSigningRequest(csr, old, signingWrites{})
}

func checkSigningRequest(csr, old *certificatesv1.CertificateSigningRequest, may signingWrites) field.ErrorList {
	errs := signingSpec(&csr.Spec, kind.SpecPath())
	errs = append(errs, signingConditions(csr, field.NewPath("status", "conditions"))...)
	changed := old == nil || !bytes.Equal(csr.Status.Certificate, old.Status.Certificate)
	if changed && len(csr.Status.Certificate) > 0 {
		if err := checkCertificates(csr.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
		}
	}
	if old == nil {
		return errs
	}
	return append(errs, signingChanges(csr, old, may)...)
}

func signingSpec(spec *certificatesv1.CertificateSigningRequestSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := CheckRequest(spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), spec.Request, err.Error()))
	}
	usages := path.Child("usages")
	if len(spec.Usages) == 0 {
		errs = append(errs, field.Required(usages, ""))
	}
	for i, usage := range spec.Usages {
		errs = append(errs, kind.OneOf(usage, usages.Index(i), keyUsages...)...)
	}
	errs = append(errs, kind.Unique(spec.Usages, func(u certificatesv1.KeyUsage) string { return string(u) }, usages)...)
	if spec.SignerName == "kubernetes.io/legacy-unknown" {
		errs = append(errs, field.Invalid(path.Child("signerName"), spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, signerName(spec.SignerName, path.Child("signerName"))...)
	}
	if seconds := spec.ExpirationSeconds; seconds != nil && *seconds < shortestCertificate {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *seconds, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

// CheckRequest reads a request and checks that its author has the key.
func CheckRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return csr.CheckSignature()
}

func checkCertificates(data []byte) error {
	block, rest := pem.Decode(data)
	if block == nil {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certs, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certs) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
	}
	return nil
}

// signerName wants "example.com/name".
func signerName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	domain, id, found := strings.Cut(name, "/")
	if !found || strings.Contains(id, "/") {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path, "", validation.DNS1123SubdomainMaxLength))
	}
	labels := strings.Split(domain, ".")
	errs = append(errs, firstWrong(labels, domain, validation.IsDNS1123Label, path)...)
	if len(labels) < 2 {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, firstWrong(strings.Split(id, "."), id, validation.IsDNS1123Subdomain, path)...)
	const most = 2*validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 2
	if len(name) > most {
		errs = append(errs, field.TooLong(path, "", most))
	}
	return errs
}

// firstWrong reports the first label of a name that is not allowed.
func firstWrong(labels []string, name string, check func(string) []string, path *field.Path) field.ErrorList {
	for _, label := range labels {
		var errs field.ErrorList
		for _, message := range check(label) {
			errs = append(errs, field.Invalid(path, name, fmt.Sprintf("validating label %q: %s", label, message)))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}

func signingConditions(csr *certificatesv1.CertificateSigningRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range csr.Status.Conditions {
		at := path.Index(i)
		errs = append(errs, kind.Required(string(c.Type), at.Child("type"))...)
		allowed := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if slices.Contains(decisions, c.Type) {
			allowed = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		if c.Status == "" {
			errs = append(errs, field.Required(at.Child("status"), ""))
		} else {
			errs = append(errs, kind.OneOf(c.Status, at.Child("status"), allowed...)...)
		}
		opposite := map[certificatesv1.RequestConditionType]certificatesv1.RequestConditionType{
			certificatesv1.CertificateApproved: certificatesv1.CertificateDenied,
			certificatesv1.CertificateDenied:   certificatesv1.CertificateApproved,
		}[c.Type]
		if opposite != "" && seen[opposite] {
			errs = append(errs, field.Invalid(path, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen[c.Type] {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen[c.Type] = true
	}
	return errs
}

// signingChanges refuses to take decisions back, and to change what the writer may not.
func signingChanges(csr, old *certificatesv1.CertificateSigningRequest, may signingWrites) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "conditions")
	for _, kind := range decisions {
		if len(conditionsOf(csr, kind)) < len(conditionsOf(old, kind)) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not remove a condition of type %q", kind)))
		}
	}
	for _, kind := range decisions[:2] {
		have, had := conditionsOf(csr, kind), conditionsOf(old, kind)
		switch {
		case may.approval || len(have) < len(had):
		case len(have) > len(had):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not add a condition of type %q", kind)))
		case !apiequality.Semantic.DeepEqual(had, have):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not modify a condition of type %q\n%v", kind, diff.Diff(had, have))))
		}
	}
	if bytes.Equal(csr.Status.Certificate, old.Status.Certificate) {
		return errs
	}
	at := field.NewPath("status", "certificate")
	switch {
	case !may.certificate:
		errs = append(errs, field.Forbidden(at, "updates may not set certificate content"))
	case len(old.Status.Certificate) > 0:
		errs = append(errs, field.Forbidden(at, "updates may not modify existing certificate content"))
	}
	return errs
}
