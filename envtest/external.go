// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
)

// ExternalEtcd is an etcd that others run, and in which a server stores in the encoding of kube-apiserver. The keys have other names:
// they begin with the group. The fields are called as kube-apiserver's flags --etcd-servers, --etcd-prefix and so on.
type ExternalEtcd struct {
	// Servers are the URLs of its members, http://HOST:PORT or https://HOST:PORT. At least one is needed; the server goes on
	// with the others when one does not answer.
	Servers []string

	// Prefix is the part of the key space that belongs to the server, and to all servers with the same prefix. The default
	// is /registry.
	Prefix string

	// CAFile is a file with the authorities that sign the members' certificates, in PEM. Without it, the system's count.
	CAFile string

	// CertFile and KeyFile are the certificate of the server as a client, and its key. There are both or none.
	CertFile, KeyFile string
}

// errors says what is wrong.
func (e *ExternalEtcd) errors() []error {
	if e == nil {
		return nil
	}
	var errs []error
	if len(e.Servers) == 0 {
		errs = append(errs, errors.New("envtest.Options.Etcd.Servers is empty: name the URLs of the members, or leave Etcd out"))
	}
	for i, server := range e.Servers {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("envtest.Options.Etcd.Servers[%d] is %q: it must be like http://127.0.0.1:2379", i, server))
		}
	}
	if (e.CertFile == "") != (e.KeyFile == "") {
		errs = append(errs, errors.New("envtest.Options.Etcd has one of CertFile and KeyFile: it needs both or none"))
	}
	return errs
}

// config is what kube-apiserver makes of the flags.
func (e *ExternalEtcd) config() storagebackend.Config {
	prefix := e.Prefix
	if prefix == "" {
		prefix = storagekey.DefaultRoot
	}
	config := storagebackend.NewDefaultConfig(prefix, nil)
	config.Transport.ServerList = e.Servers
	config.Transport.TrustedCAFile, config.Transport.CertFile, config.Transport.KeyFile = e.CAFile, e.CertFile, e.KeyFile
	return *config
}
