// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/internal/note"
)

var _ client.NewClientFunc = New

// New returns controller-runtime's client for config and options. If options.Cache.Reader is a cache
// of pkg/cache, reads of the cache show the writes of the client at once. New neither changes nor
// keeps config and options. The errors are those of controller-runtime.
func New(config *rest.Config, options client.Options) (client.Client, error) {
	if config == nil {
		return client.New(config, options)
	}
	if options.HTTPClient == nil {
		var err error
		if options.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("could not create HTTP client from config: %w", err)
		}
	}
	observed := *options.HTTPClient
	if observed.Transport == nil {
		observed.Transport = http.DefaultTransport
	}
	observed.Transport = &transport{next: observed.Transport}
	options.HTTPClient = &observed
	noter := noterOf(options)
	if noter == nil {
		return client.New(config, options)
	}
	cached := *options.Cache
	cached.EnableReadYourWritesConsistency = nil
	options.Cache = &cached
	upstream, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return &ownClient{Client: upstream, notes: newNotes(upstream, noter)}, nil
}

// noterOf returns the cache in which to note writes; nil if they need not, or cannot, be noted.
func noterOf(options client.Options) note.Noter {
	if options.Cache == nil || options.Cache.Reader == nil || ptr.Deref(options.DryRun, false) {
		return nil
	}
	noter, ok := options.Cache.Reader.(note.Noter)
	if !ok {
		logger := options.Log
		if logger.IsZero() {
			logger = log.Log.WithName("tarn").WithName("client")
		}
		logger.Info("The client does not show its own writes: its CacheOptions.Reader is not a cache of github.com/tarn-dev/tarn/pkg/cache",
			"reader", fmt.Sprintf("%T", options.Cache.Reader))
	}
	return noter
}

// ownClient is a client that notes its writes. It is safe for concurrent use.
type ownClient struct {
	client.Client // controller-runtime's
	notes         *notes
}

// Create implements client.Writer.
func (c *ownClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := refusal("create", obj); err != nil {
		return err
	}
	return c.notes.write(ctx, obj, func(ctx context.Context) error { return c.Client.Create(ctx, obj, opts...) })
}

// Update implements client.Writer.
func (c *ownClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if err := refusal("update", obj); err != nil {
		return err
	}
	return c.notes.write(ctx, obj, func(ctx context.Context) error { return c.Client.Update(ctx, obj, opts...) })
}

// Patch implements client.Writer.
func (c *ownClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := patchRefusal(obj, patch); err != nil {
		return err
	}
	return patched(obj, c.notes.write(ctx, obj, func(ctx context.Context) error { return c.Client.Patch(ctx, obj, patch, opts...) }))
}

// Apply implements client.Writer.
func (c *ownClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.notes.apply(ctx, obj, func(ctx context.Context) error { return c.Client.Apply(ctx, obj, opts...) })
}

// Delete implements client.Writer.
func (c *ownClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	if len(o.ApplyOptions(opts).AsDeleteOptions().DryRun) > 0 {
		return c.Client.Delete(ctx, obj, opts...)
	}
	return c.notes.delete(ctx, obj, func(ctx context.Context) error { return c.Client.Delete(ctx, obj, opts...) })
}

// DeleteAllOf implements client.Writer.
func (c *ownClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	o := client.DeleteAllOfOptions{}
	if len(o.ApplyOptions(opts).AsDeleteOptions().DryRun) > 0 {
		return c.Client.DeleteAllOf(ctx, obj, opts...)
	}
	return c.notes.deleteAllOf(ctx, obj, &o, func(ctx context.Context) error { return c.Client.DeleteAllOf(ctx, obj, opts...) })
}

// Status implements client.StatusClient.
func (c *ownClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c *ownClient) SubResource(name string) client.SubResourceClient {
	if name == "token" { // it is made, and its ServiceAccount does not change
		return c.Client.SubResource(name)
	}
	return &subResource{SubResourceClient: c.Client.SubResource(name), notes: c.notes, name: name}
}
