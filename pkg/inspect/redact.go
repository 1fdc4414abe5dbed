// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"github.com/tarn-dev/tarn/pkg/informers"
)

// hidden stands in place of a value that is not shown.
const hidden = "(hidden)"

// hides reports whether the values of a kind are not shown. That is so of Secrets, in every
// representation.
func (h *handler) hides(key informers.Key) bool {
	return !h.options.ShowSecrets && key.Group == "" && key.Kind == "Secret"
}

// redacted returns what is shown of a Secret: all that says what it is, and the names of its keys. It
// names what is shown, and not what is hidden, because a transform may have put a value anywhere.
func redacted(secret map[string]any) map[string]any {
	shown := map[string]any{}
	for _, field := range []string{"apiVersion", "kind", "type", "immutable"} {
		if value, ok := secret[field]; ok {
			shown[field] = value
		}
	}
	for _, field := range []string{"data", "stringData"} {
		if values, ok := secret[field].(map[string]any); ok {
			shown[field] = masked(values)
		}
	}
	metadata, ok := secret["metadata"].(map[string]any)
	if !ok {
		return shown
	}
	about := map[string]any{}
	for _, field := range []string{
		"name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "ownerReferences", "finalizers",
	} {
		if value, ok := metadata[field]; ok {
			about[field] = value
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok { // one of them may be the whole Secret
		about["annotations"] = masked(annotations)
	}
	shown["metadata"] = about
	return shown
}

// masked returns the names of values without the values.
func masked(values map[string]any) map[string]any {
	names := make(map[string]any, len(values))
	for name := range values {
		names[name] = hidden
	}
	return names
}
