// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// The beginnings of keys that say more than that an object is there.
var (
	namespacePrefix  = keyPrefix(corev1.Resource("namespaces"))
	crdPrefix        = keyPrefix(stores.CRDs)
	apiServicePrefix = keyPrefix(apiServiceResource)
)

var apiServiceResource = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// keyPrefix is what the keys of a resource begin with.
func keyPrefix(resource schema.GroupResource) string {
	return stores.RegistryPrefix + "/" + stores.ResourcePrefix(resource) + "/"
}

// place is where an object is among the others.
type place struct {
	resource schema.GroupResource
	name     types.NamespacedName
	custom   bool
}

// rank is higher for what others need.
func rank(key string) int {
	if strings.HasPrefix(key, namespacePrefix) || strings.HasPrefix(key, crdPrefix) {
		return 1
	}
	return 0
}

// isDerived reports whether the server itself writes an object, according to others: an APIService of its own.
func isDerived(entry etcd.Entry) bool {
	return strings.HasPrefix(entry.Key, apiServicePrefix) && metadataOf(entry.Value).Labels[autoregister.AutoRegisterManagedLabel] != ""
}

// protobufPrefix begins what is not stored as JSON.
const protobufPrefix = "k8s\x00"

// metadataOf reads the metadata of a stored object; they are the first field of all kinds. It is empty for what is no object.
func metadataOf(value []byte) metav1.ObjectMeta {
	var object metav1.PartialObjectMetadata
	if raw, ok := strings.CutPrefix(string(value), protobufPrefix); ok {
		var unknown runtime.Unknown
		if unknown.Unmarshal([]byte(raw)) == nil {
			_ = object.Unmarshal(unknown.Raw)
		}
	} else {
		_ = json.Unmarshal(value, &object)
	}
	return object.ObjectMeta
}
