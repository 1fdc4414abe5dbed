// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind/kindtest"
)

func TestSecretContent(t *testing.T) {
	const redacted = `Invalid value: "<secret contents redacted>": `
	for _, c := range []struct {
		kind             corev1.SecretType
		key, value, want string
	}{
		{corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{}}`, ""},
		{corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{}`, ""},
		{corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `null`, ""},
		{corev1.SecretTypeOpaque, corev1.DockerConfigKey, `x`, ""},
		{corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `x`,
			"data[.dockerconfigjson]: " + redacted + "invalid character 'x' looking for beginning of value"},
		{corev1.SecretTypeDockercfg, corev1.DockerConfigKey, ``, "data[.dockercfg]: " + redacted + "unexpected end of JSON input"},
		{corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `[]`,
			"data[.dockercfg]: " + redacted + "json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{corev1.SecretTypeDockercfg, corev1.DockerConfigJsonKey, `{}`, "data[.dockercfg]: Required value"},
		{corev1.SecretTypeSSHAuth, corev1.SSHAuthPrivateKey, `x`, ""},
		{corev1.SecretTypeSSHAuth, corev1.SSHAuthPrivateKey, ``, "data[ssh-privatekey]: Required value"},
	} {
		secret := &corev1.Secret{Type: c.kind, Data: map[string][]byte{c.key: []byte(c.value)}}
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		kindtest.ExpectFindings(t, validateSecret(secret, nil), want)
	}
}
