// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Aggregator are the flags about other API servers behind this one.
type Aggregator struct {
	EndpointRouting bool // to the endpoints of Services instead of their cluster addresses
	CertFile        string
	KeyFile         string
}

func (a *Aggregator) addFlags(set *pflag.FlagSet) {
	set.BoolVar(&a.EndpointRouting, "enable-aggregator-routing", false,
		"Turns on aggregator routing requests to endpoints IP rather than cluster IP.")
	set.StringVar(&a.CertFile, "proxy-client-cert-file", "", "Client certificate by which aggregated servers know this one.")
	set.StringVar(&a.KeyFile, "proxy-client-key-file", "", "Private key of that certificate.")
}

func (a *Aggregator) validate() []error {
	switch {
	case a.CertFile == "" && a.KeyFile == "":
		return nil
	case a.CertFile == "" || a.KeyFile == "":
		return []error{errors.New("--proxy-client-cert-file and --proxy-client-key-file must be specified together")}
	}
	if _, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile); err != nil {
		return []error{fmt.Errorf("load the certificate for aggregated servers: %w", err)}
	}
	return nil
}
