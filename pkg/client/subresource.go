// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
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
	if err := refusal("create", sub); err != nil {
		return err
	}
	ctx = note.Follow(ctx, s.notes.noter, nil) // what it creates is not obj
	return s.notes.write(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Create(ctx, obj, sub, opts...) })
}

// Update implements client.SubResourceWriter.
func (s *subResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := client.SubResourceUpdateOptions{}
	if err := refusal("update the "+s.name+" of", sent(obj, o.ApplyOptions(opts).SubResourceBody)); err != nil {
		return err
	}
	return s.notes.write(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceWriter.
func (s *subResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	o := client.SubResourcePatchOptions{}
	body := sent(obj, o.ApplyOptions(opts).SubResourceBody)
	if err := patchRefusal(body, patch); err != nil {
		return err
	}
	return patched(body, s.notes.write(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) }))
}

// Apply implements client.SubResourceWriter.
func (s *subResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return s.notes.apply(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Apply(ctx, obj, opts...) })
}

// sent returns what a write of a subresource sends: the body of its options or, without one, the object.
func sent(obj, body client.Object) client.Object {
	if body != nil {
		return body
	}
	return obj
}

// dryEviction reports whether an Eviction of any version and Go type asks for a dry run. The query of the request
// tells of other dry runs.
func dryEviction(eviction client.Object) bool {
	raw, err := json.Marshal(eviction)
	asked := struct{ DeleteOptions metav1.DeleteOptions }{}
	return err == nil && json.Unmarshal(raw, &asked) == nil && len(asked.DeleteOptions.DryRun) > 0
}
