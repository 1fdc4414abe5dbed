// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// hidden stands in place of a value that is not shown.
const hidden = "(hidden)"

// hides reports whether the values of a kind are not shown. These are Secrets, in every
// representation.
func (h *handler) hides(key informers.Key) bool {
	return !h.options.ShowSecrets && key.Group == "" && key.Kind == "Secret"
}

// unquoted returns an error of a read without what it may quote of an object whose values are not shown: a transform may
// have put a value where another one belongs, and a decoder quotes it. An answer to the request itself stays.
func (h *handler) unquoted(key informers.Key, err error) error {
	if !h.hides(key) || apierrors.IsBadRequest(err) {
		return err
	}
	return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError,
		fmt.Sprintf("an object of %s cannot be read, and the error is not shown, because it may hold values of Secrets: read them in the program, and look at the transform of the kind", key))
}

// redacted returns the shown part of a Secret: its metadata and type, and the names of its keys.
// The shown fields are listed rather than the hidden ones, because a transform may have put a value
// anywhere.
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
	if !fits(about) {
		about = map[string]any{"name": metadata["name"], "namespace": metadata["namespace"]}
	}
	shown["metadata"] = about
	return shown
}

// fits reports whether all fields are of the types of metadata: what is not may be a value from elsewhere.
func fits(metadata map[string]any) bool {
	raw, err := json.Marshal(metadata)
	return err == nil && json.Unmarshal(raw, &metav1.ObjectMeta{}) == nil
}

// masked returns the names of values without the values.
func masked(values map[string]any) map[string]any {
	names := make(map[string]any, len(values))
	for name := range values {
		names[name] = hidden
	}
	return names
}
