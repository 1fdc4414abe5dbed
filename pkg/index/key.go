// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/postings"
)

// keysFor returns the keys of an object with these values: of each value one for all namespaces
// and, if the object has a namespace, one for that. It does not change values.
func keysFor(namespace string, values []string) []string {
	if namespace == "" {
		keys := make([]string, len(values))
		for i, value := range values {
			keys[i] = postings.Key("", value)
		}
		return keys
	}
	keys := make([]string, 2*len(values))
	for i, value := range values {
		keys[2*i] = postings.Key(namespace, value)
		keys[2*i+1] = postings.Key("", value)
	}
	return keys
}

// indexFunc adapts extract to client-go's indexes.
func indexFunc(extract client.IndexerFunc) toolscache.IndexFunc {
	return func(raw any) ([]string, error) {
		obj, ok := raw.(client.Object)
		if !ok {
			return nil, fmt.Errorf("cannot index a %T: it is no client.Object", raw)
		}
		return keysFor(obj.GetNamespace(), extract(obj)), nil
	}
}
