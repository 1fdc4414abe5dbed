// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the admission webhooks of Websites.
package v1

import (
	"context"
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webv1 "github.com/tarn-dev/tarn/examples/kubebuilder/api/v1"
)

// SetupWebsiteWebhookWithManager adds the webhooks to the server of a manager.
func SetupWebsiteWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &webv1.Website{}).
		WithDefaulter(&WebsiteDefaulter{}).
		WithValidator(&WebsiteValidator{}).
		Complete()
}

// +kubebuilder:webhook:path=/mutate-web-example-com-v1-website,mutating=true,failurePolicy=fail,sideEffects=None,groups=web.example.com,resources=websites,verbs=create;update,versions=v1,name=mwebsite-v1.kb.io,admissionReviewVersions=v1

// WebsiteDefaulter fills in what a Website leaves out.
type WebsiteDefaulter struct{}

// Default implements admission.Defaulter.
func (*WebsiteDefaulter) Default(_ context.Context, site *webv1.Website) error {
	if site.Spec.Image == "" {
		site.Spec.Image = "nginx:1.29"
	}
	return nil
}

// +kubebuilder:webhook:path=/validate-web-example-com-v1-website,mutating=false,failurePolicy=fail,sideEffects=None,groups=web.example.com,resources=websites,verbs=create;update,versions=v1,name=vwebsite-v1.kb.io,admissionReviewVersions=v1

// WebsiteValidator refuses an image without a tag.
type WebsiteValidator struct{}

// ValidateCreate implements admission.Validator.
func (v *WebsiteValidator) ValidateCreate(_ context.Context, site *webv1.Website) (admission.Warnings, error) {
	return nil, checkImage(site)
}

// ValidateUpdate implements admission.Validator.
func (v *WebsiteValidator) ValidateUpdate(_ context.Context, _, site *webv1.Website) (admission.Warnings, error) {
	return nil, checkImage(site)
}

// ValidateDelete implements admission.Validator. Every Website may be deleted.
func (*WebsiteValidator) ValidateDelete(context.Context, *webv1.Website) (admission.Warnings, error) {
	return nil, nil
}

func checkImage(site *webv1.Website) error {
	if !strings.Contains(site.Spec.Image, ":") {
		return fmt.Errorf("spec.image: %q has no tag", site.Spec.Image)
	}
	return nil
}
