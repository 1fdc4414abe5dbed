// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigName names the cluster, the user and the context of a kubeconfig.
const kubeconfigName = "tarn"

// KubeConfig returns a kubeconfig for an administrator, with the credentials of Config. It is for programs that read
// their configuration from a file. Only the owner should be able to read that file.
func (e *Environment) KubeConfig() ([]byte, error) {
	r, err := e.parts()
	if err != nil {
		return nil, fmt.Errorf("make a kubeconfig: %w", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[kubeconfigName] = &clientcmdapi.Cluster{
		Server: r.admin.Host, CertificateAuthorityData: r.admin.CAData, DisableCompression: r.admin.DisableCompression,
	}
	config.AuthInfos[kubeconfigName] = &clientcmdapi.AuthInfo{
		Token: r.admin.BearerToken, ClientCertificateData: r.admin.CertData, ClientKeyData: r.admin.KeyData,
	}
	config.Contexts[kubeconfigName] = &clientcmdapi.Context{Cluster: kubeconfigName, AuthInfo: kubeconfigName}
	config.CurrentContext = kubeconfigName
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("make a kubeconfig: %w", err)
	}
	return data, nil
}
