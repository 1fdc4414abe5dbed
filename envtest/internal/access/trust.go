// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Port is where the server listens.
func (a *Users) Port() (int32, error) {
	_, text, err := net.SplitHostPort(a.address)
	if err != nil {
		return 0, fmt.Errorf("read the server's address: %w", err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read the server's port: %w", err)
	}
	return int32(port), nil
}

// Trust is the ConfigMap by which other API servers trust the users of this one: the authority of their certificates, and
// the headers by which a proxy in front names them.
func (a *Users) Trust() (*corev1.ConfigMap, error) {
	data := map[string]string{}
	if a.clientCA != nil {
		data["client-ca-file"] = string(a.clientCA.CurrentCABundleContent())
	}
	if header := a.front.header; header != nil {
		data["requestheader-client-ca-file"] = string(header.CAContentProvider.CurrentCABundleContent())
		for key, values := range map[string][]string{
			"requestheader-username-headers":     header.UsernameHeaders.Value(),
			"requestheader-uid-headers":          header.UIDHeaders.Value(),
			"requestheader-group-headers":        header.GroupHeaders.Value(),
			"requestheader-extra-headers-prefix": header.ExtraHeaderPrefixes.Value(),
			"requestheader-allowed-names":        header.AllowedClientNames.Value(),
		} {
			list, err := json.Marshal(values)
			if err != nil {
				return nil, fmt.Errorf("encode %s: %w", key, err)
			}
			data[key] = string(list)
		}
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication"}, Data: data,
	}, nil
}
