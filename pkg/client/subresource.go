// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// subResource is the client of one subresource. Its writes are noted as far as they tell of the
// object itself.
type subResource struct {
	client.SubResourceClient // controller-runtime's
	notes                    *notes
	name                     string
}

// Create implements client.SubResourceWriter.
func (s *subResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	if s.name == "eviction" && dryEviction(sub) {
		return s.SubResourceClient.Create(ctx, obj, sub, opts...)
	}
	return s.notes.write(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Create(ctx, obj, sub, opts...) })
}

// Update implements client.SubResourceWriter.
func (s *subResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.notes.write(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceWriter.
func (s *subResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.notes.write(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

// Apply implements client.SubResourceWriter.
func (s *subResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return s.notes.apply(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Apply(ctx, obj, opts...) })
}

// dryEviction reports whether an Eviction of any version and Go type asks for a dry run. The query of the request
// tells of other dry runs.
func dryEviction(eviction client.Object) bool {
	raw, err := json.Marshal(eviction)
	asked := struct{ DeleteOptions metav1.DeleteOptions }{}
	return err == nil && json.Unmarshal(raw, &asked) == nil && len(asked.DeleteOptions.DryRun) > 0
}
