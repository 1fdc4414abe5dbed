// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/keyutil"

	"github.com/tarn-dev/tarn/envtest/internal/access"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/tokens"
	"github.com/tarn-dev/tarn/envtest/internal/flags"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

// Process is the part of an environment that a command line of kube-apiserver changes: the address, the
// certificates, the trusted authorities, and the etcd.
type Process struct {
	Flags *flags.Flags
	info  *genericapiserver.SecureServingInfo
	proxy *dynamiccertificates.DynamicCertKeyPairContent // for aggregated servers; nil if the flags name none

	errOut io.Writer // for people
}

// New is for flags that have been checked. Messages for people go to errOut.
func New(f *flags.Flags, errOut io.Writer) *Process { return &Process{Flags: f, errOut: errOut} }

// Certificate tells of changes of the certificate for aggregated servers, nil if there is none.
func (p *Process) Certificate() dynamiccertificates.Notifier {
	if p.proxy == nil {
		return nil
	}
	return p.proxy
}

// Open listens, loads the files that the flags name and makes the means by which the server asks itself. The watchers of
// the files run in the server, and end with it.
func (p *Process) Open() (*serving.Listener, *access.Users, error) {
	f := p.Flags
	if err := f.Serving.MaybeDefaultWithSelfSignedCerts("localhost", []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes"}, nil); err != nil {
		return nil, nil, fmt.Errorf("error creating self-signed certificates: %w", err)
	}
	if err := f.Serving.ApplyTo(&p.info); err != nil {
		return nil, nil, err
	}
	listener := serving.NewListener(p.info.Listener, max(p.info.HTTP2MaxStreamsPerConnection, 0))
	users, err := p.users()
	return listener, users, err
}

// users is whom the flags let in.
func (p *Process) users() (*access.Users, error) {
	config := access.Config{Address: p.info.Listener.Addr().String(), Anonymous: p.Flags.Access.Anonymous}
	var err error
	if config.ClientCA, err = p.Flags.Access.ClientCert.GetClientCAContentProvider(); err != nil {
		return nil, fmt.Errorf("unable to load client CA file: %w", err)
	}
	if config.Header, err = p.Flags.Access.RequestHeader.ToAuthenticationRequestHeaderConfig(); err != nil {
		return nil, fmt.Errorf("unable to load the CA of the front proxy: %w", err)
	}
	p.info.ClientCA = config.ClientCA
	if config.Header != nil {
		p.info.ClientCA = bothCAs(config.ClientCA, config.Header.CAContentProvider)
	}
	if config.Credentials, err = p.frontProxy(); err != nil {
		return nil, err
	}
	if file := p.Flags.Access.TokenFile; file != "" {
		static, err := tokenfile.NewCSV(file)
		if err != nil {
			return nil, err
		}
		config.Static = static
	}
	users := access.Configure(config)
	return users, p.addLoopback(users)
}

// frontProxy loads the certificate that the flags name for aggregated servers.
func (p *Process) frontProxy() (func() (cert, key []byte), error) {
	f := p.Flags.Aggregator
	if f.CertFile == "" {
		return func() ([]byte, []byte) { return nil, nil }, nil
	}
	var err error
	if p.proxy, err = dynamiccertificates.NewDynamicServingContentFromFiles("aggregator-proxy-cert", f.CertFile, f.KeyFile); err != nil {
		return nil, fmt.Errorf("load the certificate for aggregated servers: %w", err)
	}
	return p.proxy.CurrentCertKeyContent, nil
}

// bothCAs is what the server says that it trusts.
func bothCAs(clientCA, header dynamiccertificates.CAContentProvider) dynamiccertificates.CAContentProvider {
	if clientCA == nil {
		return header
	}
	return dynamiccertificates.NewUnionCAContentProvider(clientCA, header)
}

// addLoopback gives the server a certificate of its own for its own requests, chosen by server name. The certificate of the
// flags may be for any host.
func (p *Process) addLoopback(users *access.Users) error {
	ca, err := serving.NewAuthority("apiserver-loopback-client-ca")
	if err != nil {
		return err
	}
	certPEM, keyPEM, err := ca.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: genericapiserver.LoopbackClientServerNameOverride},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{genericapiserver.LoopbackClientServerNameOverride},
	})
	if err != nil {
		return err
	}
	pair, err := dynamiccertificates.NewStaticSNICertKeyContent("self-signed loopback", certPEM, keyPEM,
		genericapiserver.LoopbackClientServerNameOverride)
	if err != nil {
		return fmt.Errorf("load the server's own certificate: %w", err)
	}
	p.info.SNICerts = append([]dynamiccertificates.SNICertKeyContentProvider{pair}, p.info.SNICerts...)
	token := rand.Text()
	self, err := p.info.NewLoopbackClientConfig(token, ca.Bundle())
	if err != nil {
		return fmt.Errorf("configure the server's client: %w", err)
	}
	self.DisableCompression = true
	users.SetSelf(self, token)
	return nil
}

// Secure is the server's TLS configuration, which follows the files until ctx ends.
func (p *Process) Secure(ctx context.Context) (*tls.Config, error) {
	base := &tls.Config{
		MinVersion:       tls.VersionTLS12,
		CipherSuites:     p.info.CipherSuites,
		CurvePreferences: p.info.CurvePreferences,
		NextProtos:       []string{"h2", "http/1.1"},
	}
	if p.info.MinTLSVersion > 0 {
		base.MinVersion = p.info.MinTLSVersion
	}
	if p.info.DisableHTTP2 {
		base.NextProtos = []string{"http/1.1"}
	}
	if p.info.ClientCA != nil {
		base.ClientAuth = tls.RequestClientCert
	}
	certificates := dynamiccertificates.NewDynamicServingCertificateController(base, p.info.ClientCA, p.info.Cert, p.info.SNICerts, nil)
	if p.proxy != nil {
		go p.proxy.Run(ctx, 1)
	}
	watched := []any{p.info.ClientCA, p.info.Cert}
	for _, pair := range p.info.SNICerts {
		watched = append(watched, pair)
	}
	for _, provider := range watched {
		if notifier, ok := provider.(dynamiccertificates.Notifier); ok {
			notifier.AddListener(certificates)
		}
		if runner, ok := provider.(dynamiccertificates.ControllerRunner); ok {
			go runner.Run(ctx, 1)
		}
	}
	if err := certificates.RunOnce(); err != nil {
		return nil, fmt.Errorf("load the certificates: %w", err)
	}
	go certificates.Run(1, ctx.Done())
	config := base.Clone()
	config.GetConfigForClient = certificates.GetConfigForClient
	return config, nil
}

// TokenKeys are the keys that the flags name for tokens of service accounts.
func (p *Process) TokenKeys() (*tokens.TokenKeys, error) {
	f := p.Flags.Access
	key, err := keyutil.PrivateKeyFromFile(f.SigningKeyFile)
	if err != nil {
		return nil, fmt.Errorf("load the key that signs tokens of service accounts: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s cannot sign", f.SigningKeyFile)
	}
	var known []crypto.PublicKey
	for _, file := range f.KeyFiles {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("load the keys of service accounts: %w", err)
		}
		for _, key := range keys {
			known = append(known, key)
		}
	}
	return tokens.NewTokenKeys(f.Issuers[0], signer, known...)
}

// Apply lets the flags change the server's configuration.
func (p *Process) Apply(config *genericapiserver.RecommendedConfig, kinds *builtin.Kinds) error {
	f, address := p.Flags, config.ExternalAddress
	if err := f.Run.ApplyTo(&config.Config); err != nil {
		return err
	}
	if config.ExternalAddress == "" {
		config.ExternalAddress = address
	}
	config.SecureServing = p.info // for --goaway-chance; this module's listener serves
	f.Features.EnablePriorityAndFairness = false
	if err := f.Features.ApplyTo(&config.Config, nil, nil); err != nil {
		return err
	}
	if err := f.Audit.ApplyTo(&config.Config); err != nil {
		return err
	}
	if err := f.Tracing.ApplyTo(nil, &config.Config); err != nil {
		return err
	}
	return p.chooseAPIs(config, kinds)
}

// needed are read by the server itself.
var needed = []schema.GroupVersion{
	corev1.SchemeGroupVersion, rbacv1.SchemeGroupVersion, admissionv1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion,
}

// chooseAPIs takes away the APIs that --runtime-config disables, and reports enabled ones that are
// not here.
func (p *Process) chooseAPIs(config *genericapiserver.RecommendedConfig, kinds *builtin.Kinds) error {
	here := crdserver.DefaultAPIResourceConfigSource()
	for _, group := range kinds.Groups {
		here.EnableVersions(group.PrioritizedVersions...)
	}
	served := maps.Clone(here.GroupVersionConfigs)
	if err := p.Flags.APIs.ApplyTo(&config.Config, here, scheme.Scheme); err != nil {
		return err
	}
	chosen := config.MergedResourceConfig
	for _, version := range needed {
		if !chosen.ResourceEnabled(version.WithResource("any")) {
			return fmt.Errorf("--runtime-config disables %s, which the server itself reads", version)
		}
	}
	for version, enabled := range chosen.ExplicitGroupVersionConfigs {
		if enabled && !served[version] {
			p.Tell(fmt.Sprintf("--runtime-config: %s has no effect: it is not served", version))
		}
	}
	for _, group := range kinds.Groups {
		for version, storages := range group.VersionedResourcesStorageMap {
			gv := schema.GroupVersion{Group: group.PrioritizedVersions[0].Group, Version: version}
			maps.DeleteFunc(storages, func(path string, _ rest.Storage) bool {
				resource, _, _ := strings.Cut(path, "/")
				return !chosen.ResourceEnabled(gv.WithResource(resource))
			})
		}
		group.PrioritizedVersions = slices.DeleteFunc(group.PrioritizedVersions, func(gv schema.GroupVersion) bool {
			return len(group.VersionedResourcesStorageMap[gv.Version]) == 0
		})
	}
	kinds.Groups = slices.DeleteFunc(kinds.Groups, func(group *genericapiserver.APIGroupInfo) bool {
		return len(group.PrioritizedVersions) == 0
	})
	return nil
}

// Tell writes what the user should know, in a line.
func (p *Process) Tell(message string) {
	_, _ = fmt.Fprintln(p.errOut, "kube-apiserver (Tarn): "+message)
}
