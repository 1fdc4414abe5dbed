// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestDeleteObjects is about kinds of other API servers: all that are built in can be deleted as a collection.
func TestDeleteObjects(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		collection bool
		refuses    map[string]error // by verb, and by name of the object
		want       []string
		err        error
	}{
		"a collection at once":           {collection: true, want: []string{"delete-collection "}},
		"one by one, without the verb":   {want: []string{"delete a", "delete b"}},
		"one by one, if it has the verb": {collection: true, refuses: map[string]error{"delete-collection": apierrors.NewMethodNotSupported(widgets.GroupResource(), "deletecollection")}, want: []string{"delete-collection ", "delete a", "delete b"}},
		"what is gone already":           {refuses: map[string]error{"a": apierrors.NewNotFound(widgets.GroupResource(), "a")}, want: []string{"delete a", "delete b"}},
		"until one cannot be deleted":    {refuses: map[string]error{"a": broken}, want: []string{"delete a"}, err: broken},
		"unless the collection cannot":   {collection: true, refuses: map[string]error{"delete-collection": broken}, want: []string{"delete-collection "}, err: broken},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			client, calls := fake.NewSimpleMetadataClient(scheme), []string(nil)
			client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				var object string
				if d, ok := action.(clienttesting.DeleteAction); ok {
					object = d.GetName()
				}
				calls = append(calls, action.GetVerb()+" "+object)
				return true, nil, errors.Join(c.refuses[action.GetVerb()], c.refuses[object])
			})
			objects := []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
			err := (&content{metadata: client}).deleteObjects(t.Context(), resource{GroupVersionResource: widgets, collection: c.collection}, "ns", objects)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("the error is %v, want %v", err, c.err)
			}
			if !slices.Equal(calls, c.want) {
				t.Errorf("the calls are %q, want %q", strings.Join(calls, ", "), strings.Join(c.want, ", "))
			}
		})
	}
}
