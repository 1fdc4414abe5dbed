// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// storedAs returns the kind of the objects in which a server keeps what is written as gvk. A Binding of a Pod
// to a node is kept in the Pod, whose key it has. It is empty for reviews of a user's rights and identity:
// these are created, and not kept.
func storedAs(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	switch {
	case gvk.Group == authorizationv1.GroupName, gvk.Group == authenticationv1.GroupName:
		return schema.GroupVersionKind{}
	case gvk == corev1.SchemeGroupVersion.WithKind("Binding"):
		return corev1.SchemeGroupVersion.WithKind("Pod")
	}
	return gvk
}
