// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/projection"
)

// refusal returns the error of a write that would send an object that the cache has kept in part; nil if the object is
// whole. The server would take what is missing for what is to be erased.
func refusal(verb string, obj client.Object) error {
	if obj == nil {
		return nil
	}
	if kept := projection.MarkOf(obj); kept != nil {
		return refuse(verb, obj, kept, "this would erase or invent the others")
	}
	return nil
}

func refuse(verb string, obj client.Object, kept *projection.Projection, why string) error {
	kind := cmp.Or(obj.GetObjectKind().GroupVersionKind().Kind, fmt.Sprintf("%T", obj))
	return apierrors.NewBadRequest(fmt.Sprintf("cannot %s %s %s: the cache has kept only the fields %s of it (Fields in cache.Tuning), and %s; "+
		"use a merge patch, or read the whole object with the option cache.ReadThrough() or an APIReader",
		verb, kind, client.ObjectKeyFromObject(obj), kept, why))
}

// constant is the Go type of patches that are the same for each object.
var constant = reflect.TypeOf(client.RawPatch(types.MergePatchType, nil))

// patchRefusal returns the error of a patch that is made of an object that the cache has kept in part, if it would send the object, or replace a list that is not kept. A strategic merge patch says in which lists it merges.
func patchRefusal(obj client.Object, patch client.Patch) error {
	if obj == nil || patch == nil || reflect.TypeOf(patch) == constant {
		return nil
	}
	kept := projection.MarkOf(obj)
	if kept == nil {
		return nil
	}
	var changes map[string]any
	data, err := patch.Data(obj)
	if err != nil || json.Unmarshal(data, &changes) != nil {
		return nil // the client makes it again, and returns the error
	}
	m, _ := changes["metadata"].(map[string]any)
	if link, ok := m["selfLink"]; ok && link != nil {
		return refuse("patch", obj, kept, "this patch has all of it")
	}
	if path := replaced(changes, kept, nil); path != nil {
		return refuse("patch", obj, kept, fmt.Sprintf("this patch would replace the list %s", strings.Join(path, ".")))
	}
	return nil
}

// replaced returns the path of a list in a patch that is not kept as a whole; nil if there is none.
func replaced(changes map[string]any, kept *projection.Projection, at []string) []string {
	for name, value := range changes {
		path := append(slices.Clone(at), name)
		switch value := value.(type) {
		case map[string]any:
			if found := replaced(value, kept, path); found != nil {
				return found
			}
		case []any:
			_, merges := changes["$setElementOrder/"+name]
			if !merges && !strings.HasPrefix(name, "$") && !kept.Keeps(path) {
				return path
			}
		}
	}
	return nil
}

// patched says that the response to a patch was read into obj, which is whole then. A response in JSON does not clear the
// fields that it does not have.
func patched(obj client.Object, err error) error {
	if err == nil && obj != nil && projection.MarkOf(obj) != nil {
		obj.SetSelfLink("")
	}
	return err
}
