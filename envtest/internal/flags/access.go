// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/util/keyutil"
)

// The values of --authorization-mode.
const (
	ModeRBAC        = "RBAC"
	ModeNode        = "Node"
	ModeAlwaysAllow = "AlwaysAllow"
	ModeAlwaysDeny  = "AlwaysDeny"
)

// Access are the flags about who may do what.
type Access struct {
	Anonymous     bool
	ClientCert    serveroptions.ClientCertAuthenticationOptions
	RequestHeader serveroptions.RequestHeaderAuthenticationOptions
	TokenFile     string
	Modes         []string // never empty after validate

	Issuers         []string
	KeyFiles        []string
	SigningKeyFile  string
	SigningEndpoint string
}

func newAccess() *Access { return &Access{Anonymous: true} }

func (a *Access) addFlags(authentication, authorization *pflag.FlagSet) {
	authentication.BoolVar(&a.Anonymous, "anonymous-auth", a.Anonymous,
		"Enables anonymous requests to the secure port of the API server. They have the name system:anonymous, and the group system:unauthenticated.")
	a.ClientCert.AddFlags(authentication)
	a.RequestHeader.AddFlags(authentication)
	authentication.StringVar(&a.TokenFile, "token-auth-file", "", "The file of the static tokens of users, in CSV.")
	authentication.StringArrayVar(&a.Issuers, "service-account-issuer", nil, "Identifier of the service account token issuer.")
	authentication.StringArrayVar(&a.KeyFiles, "service-account-key-file", nil,
		"File with PEM-encoded RSA or ECDSA private or public keys, or certificates, to verify service account tokens.")
	authentication.StringVar(&a.SigningKeyFile, "service-account-signing-key-file", "",
		"File with the private key that signs service account tokens.")
	authentication.StringVar(&a.SigningEndpoint, "service-account-signing-endpoint", "", "Path to the socket of an external signer.")
	authorization.StringSliceVar(&a.Modes, "authorization-mode", nil,
		"Ordered list of plug-ins to do authorization on secure port: AlwaysAllow, AlwaysDeny, Node, RBAC. The default is AlwaysAllow.")
}

// validate says what kube-apiserver says.
func (a *Access) validate() []error {
	var errs []error
	if len(a.Issuers) == 0 {
		errs = append(errs, errors.New("service-account-issuer is a required flag"))
	}
	for i, issuer := range a.Issuers {
		if _, err := url.Parse(issuer); err != nil && strings.Contains(issuer, ":") {
			errs = append(errs, fmt.Errorf("service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err))
		}
		if issuer == "" {
			errs = append(errs, errors.New("service-account-issuer should not be an empty string"))
		}
		if slices.Contains(a.Issuers[:i], issuer) {
			errs = append(errs, fmt.Errorf("service-account-issuer %q is already specified", issuer))
		}
	}
	if len(a.KeyFiles) == 0 && a.SigningEndpoint == "" {
		errs = append(errs, errors.New("either `--service-account-key-file` or `--service-account-signing-endpoint` must be set"))
	}
	if len(a.Issuers) == 0 || a.SigningKeyFile == "" && a.SigningEndpoint == "" {
		errs = append(errs, errors.New("--service-account-signing-key-file and --service-account-issuer are required flags"))
	}
	for _, file := range a.KeyFiles {
		if _, err := keyutil.PublicKeysFromFile(file); err != nil {
			errs = append(errs, err)
		}
	}
	if a.SigningKeyFile != "" {
		if _, err := keyutil.PrivateKeyFromFile(a.SigningKeyFile); err != nil {
			errs = append(errs, fmt.Errorf("failed to parse service-account-issuer-key-file: %w", err))
		}
	}
	errs = append(errs, a.RequestHeader.Validate()...)
	for i, mode := range a.Modes {
		switch mode {
		case ModeRBAC, ModeNode, ModeAlwaysAllow, ModeAlwaysDeny:
		case "ABAC", "Webhook":
			errs = append(errs, fmt.Errorf("--authorization-mode=%s is not supported: use RBAC, AlwaysAllow or AlwaysDeny", mode))
		default:
			errs = append(errs, fmt.Errorf("authorization-mode %q is not a valid mode", mode))
		}
		if slices.Contains(a.Modes[:i], mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q has mode specified more than once", a.Modes))
		}
	}
	if len(a.Modes) == 0 {
		a.Modes = []string{ModeAlwaysAllow}
	}
	if slices.Contains(a.Modes, ModeAlwaysAllow) {
		a.Anonymous = false // as kube-apiserver does
	}
	return errs
}

func (a *Access) notices() []string {
	var notices []string
	if slices.Contains(a.Modes, ModeNode) {
		notices = append(notices, "--authorization-mode=Node has no effect: there are no nodes that ask")
	}
	return notices
}
