// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigName names the cluster, the user and the context of a kubeconfig.
const kubeconfigName = "tarn"

// KubeConfig returns a kubeconfig for an administrator, with the credentials of Config. It is for programs that read
// their configuration from a file. Only the owner should be able to read that file: WriteKubeConfig writes such a file.
func (e *Environment) KubeConfig() ([]byte, error) {
	r, err := e.parts()
	if err != nil {
		return nil, fmt.Errorf("make a kubeconfig: %w", err)
	}
	return kubeconfigOf(r.admin)
}

// WriteKubeConfig writes a kubeconfig for kubectl and other programs to a new file at path, which its owner alone can
// read (mode 0600). The file has the server, the certificate authority and the credentials of config, as AddUser and
// Config return it, and nothing else of it. It is an error if there is a file.
func WriteKubeConfig(path string, config *rest.Config) (err error) {
	if config == nil {
		return errors.New("write a kubeconfig: the configuration is nil: an environment that does not run has none")
	}
	content, err := kubeconfigOf(config)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write a kubeconfig: %w", err), os.Remove(path))
	}
	return nil
}

// kubeconfigOf returns the kubeconfig of a configuration.
func kubeconfigOf(config *rest.Config) ([]byte, error) {
	file := clientcmdapi.NewConfig()
	file.Clusters[kubeconfigName] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthorityData: config.CAData, DisableCompression: config.DisableCompression,
	}
	file.AuthInfos[kubeconfigName] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	file.Contexts[kubeconfigName] = &clientcmdapi.Context{Cluster: kubeconfigName, AuthInfo: kubeconfigName}
	file.CurrentContext = kubeconfigName
	content, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("make a kubeconfig: %w", err)
	}
	return content, nil
}
