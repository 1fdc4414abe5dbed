// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func CertificatesKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), Resource: "certificatesigningrequests",
		Short: []string{"csr"}, Cluster: true,
		Rules:  kind.Rules{Status: true, Names: anyName, OwnsSpec: true},
		Hooks:  kind.Hooks{Prepare: kind.TypedPrepare(prepareSigningRequest), Validate: kind.TypedCheck(validateSigningRequest)},
		Attach: attachSigningRequest,
		Fields: kind.Selectable(func(csr *certificatesv1.CertificateSigningRequest, set fields.Set) {
			set["spec.signerName"] = csr.Spec.SignerName
		}, "spec.signerName"),
		Table: kind.Show("Age,SignerName,Requestor,RequestedDuration,Condition", signingRequestCells),
	}}
}

// anyName is the rule for names that nobody looks at.
func anyName(string, bool) []string { return nil }

// prepareSigningRequest notes the user, whatever the request says, and keeps the rest of an old request as it is.
func prepareSigningRequest(ctx context.Context, csr, old *certificatesv1.CertificateSigningRequest) {
	if old != nil {
		csr.Spec = old.Spec
		return
	}
	spec := &csr.Spec
	spec.Username, spec.UID, spec.Groups, spec.Extra = "", "", nil, nil
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return
	}
	spec.Username, spec.UID, spec.Groups = who.GetName(), who.GetUID(), who.GetGroups()
	for key, values := range who.GetExtra() {
		if spec.Extra == nil {
			spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
}

// attachSigningRequest adds the two parts that may be written after creation, each by other users: the approval, and the
// status with the certificate.
func attachSigningRequest(a *kind.Served) (map[string]rest.Storage, error) {
	return map[string]rest.Storage{
		"approval": kind.NewPartREST(a.Store, signingPart{Strategy: a.Strategy, approval: true}),
		"status":   kind.NewPartREST(a.Store, signingPart{Strategy: a.Strategy}),
	}, nil
}

// signingPart is the strategy of one of them.
type signingPart struct {
	kind.Strategy
	approval bool
}

// AllowCreateOnUpdate is false: a part belongs to an object that exists.
func (s signingPart) AllowCreateOnUpdate(context.Context) bool { return false }

// PrepareForUpdate takes the part from the request and the rest from storage.
func (s signingPart) PrepareForUpdate(_ context.Context, obj, was runtime.Object) {
	csr, old := kind.MustBe[*certificatesv1.CertificateSigningRequest](obj), kind.MustBe[*certificatesv1.CertificateSigningRequest](was)
	csr.Spec = old.Spec
	if s.approval {
		csr.Status.Certificate = old.Status.Certificate
	} else {
		keepConditions(csr, old, certificatesv1.CertificateApproved)
		keepConditions(csr, old, certificatesv1.CertificateDenied)
	}
	stampConditions(csr, old)
}

// keepConditions restores the conditions of a type, if there are as many as there were.
func keepConditions(csr, old *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) {
	were := conditionsOf(old, condition)
	if len(were) != len(conditionsOf(csr, condition)) {
		return
	}
	i := 0
	kind.Each(csr.Status.Conditions, func(c *certificatesv1.CertificateSigningRequestCondition) {
		if c.Type == condition {
			*c = were[i]
			i++
		}
	})
}

// conditionsOf returns the conditions of a type.
func conditionsOf(csr *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var found []certificatesv1.CertificateSigningRequestCondition
	for _, c := range csr.Status.Conditions {
		if c.Type == condition {
			found = append(found, c)
		}
	}
	return found
}

// stampConditions sets the times that a writer left out.
func stampConditions(csr, old *certificatesv1.CertificateSigningRequest) {
	now := metav1.Now()
	kind.Each(csr.Status.Conditions, func(c *certificatesv1.CertificateSigningRequestCondition) {
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			return
		}
		c.LastTransitionTime = now
		for _, was := range conditionsOf(old, c.Type) {
			if was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
				return
			}
		}
	})
}

// ValidateUpdate checks the whole request, and what this part may change.
func (s signingPart) ValidateUpdate(_ context.Context, obj, was runtime.Object) field.ErrorList {
	return checkSigningRequest(kind.MustBe[*certificatesv1.CertificateSigningRequest](obj),
		kind.MustBe[*certificatesv1.CertificateSigningRequest](was), signingWrites{approval: s.approval, certificate: !s.approval})
}

// GetResetFields names what the part does not write.
func (s signingPart) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	other := fieldpath.MakePathOrDie("status", "conditions")
	if s.approval {
		other = fieldpath.MakePathOrDie("status", "certificate")
	}
	return kind.ResetFields(s.Kind, fieldpath.MakePathOrDie("spec"), other)
}

func signingRequestCells(csr *certificatesv1.CertificateSigningRequest) []any {
	lifetime := "<none>"
	if seconds := csr.Spec.ExpirationSeconds; seconds != nil {
		lifetime = duration.HumanDuration(time.Duration(*seconds) * time.Second)
	}
	condition := "Pending"
	switch {
	case len(conditionsOf(csr, certificatesv1.CertificateDenied)) > 0:
		condition = "Denied"
	case len(conditionsOf(csr, certificatesv1.CertificateApproved)) > 0:
		condition = "Approved"
	}
	if len(conditionsOf(csr, certificatesv1.CertificateFailed)) > 0 {
		condition += ",Failed"
	}
	if len(csr.Status.Certificate) > 0 {
		condition += ",Issued"
	}
	return []any{kind.AgeOf(csr), kind.OrNone(csr.Spec.SignerName), csr.Spec.Username, lifetime, condition}
}
