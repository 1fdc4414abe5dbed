// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"net/url"
)

// ServiceResolver returns the URL of a Service that a webhook configuration or an APIService names. There is no cluster
// network with a DNS, so a test that serves a webhook itself returns its own address. The server calls it from many
// goroutines, and does not change the URL.
type ServiceResolver func(namespace, name string, port int32) (*url.URL, error)

// ResolveEndpoint implements webhook.ServiceResolver.
func (f ServiceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	u, err := f(namespace, name, port)
	switch {
	case err != nil:
		return nil, err
	case u == nil:
		return nil, fmt.Errorf("Options.ServiceResolver returned no URL and no error for Service %s/%s port %d", namespace, name, port)
	}
	own := *u // whoever asked adds the path of a request
	return &own, nil
}

// unresolved is the resolver when the user gave none.
func unresolved(namespace, name string, port int32) (*url.URL, error) {
	return nil, fmt.Errorf("webhook names Service %s/%s port %d, which leads nowhere in a test: "+
		"use a URL in its client config, or set Options.ServiceResolver", namespace, name, port)
}
