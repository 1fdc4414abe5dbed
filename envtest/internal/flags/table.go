// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// gateName finds the gates in the value of --feature-gates.
var gateName = regexp.MustCompile(`([A-Za-z0-9]+)=(?i:true|false)`)

// flag is one row of the table: a flag that has no effect, or is refused.
type flag struct {
	set     string // of flags that it is in
	name    string
	kind    string // of value; empty if a library has the flag
	preset  string // its value in kube-apiserver, with which it may be given
	refused bool   // a test that gives it would go wrong
	why     string
}

// usage is what help shows of the flag.
func (f *flag) usage() string {
	if f.refused {
		return "Not supported: " + f.why + "."
	}
	return "Has no effect: " + f.why + "."
}

// add adds the flag to the set, or its usage if a library has the flag.
func (f *flag) add(set *pflag.FlagSet) {
	usage := f.usage()
	if known := set.Lookup(f.name); known != nil {
		known.Usage = usage
		return
	}
	switch f.kind {
	case "bool":
		set.Bool(f.name, f.preset == "true", usage)
	case "int":
		number, _ := strconv.Atoi(f.preset) // a test adds all
		set.Int(f.name, number, usage)
	case "duration":
		duration, _ := time.ParseDuration(f.preset)
		set.Duration(f.name, duration, usage)
	case "strings":
		set.StringSlice(f.name, strings.FieldsFunc(f.preset, func(r rune) bool { return r == ',' }), usage)
	case "map":
		set.StringToString(f.name, nil, usage)
	default:
		set.String(f.name, f.preset, usage)
	}
}

// table has the flags that are not honoured. Flags without a kind are those of a library.
var table = []flag{
	{"generic", "advertise-address", "", "", false, "the Endpoints of the Service kubernetes have a fixed address"},
	{"generic", "shutdown-delay-duration", "", "", false, "the server ends at once"},
	{"generic", "shutdown-send-retry-after", "", "", false, "the server ends at once"},
	{"generic", "shutdown-watch-termination-grace-period", "", "", false, "the server ends at once"},
	{"generic", "storage-initialization-timeout", "", "", false, "the server is ready when its storage is"},
	{"features", "debug-socket-path", "", "", false, "profiles are served at /debug/pprof/ alone"},
	{"etcd", "encryption-provider-config", "", "", true, "objects are stored in clear text"},
	{"etcd", "encryption-provider-config-automatic-reload", "", "", true, "objects are stored in clear text"},
	{"etcd", "etcd-servers-overrides", "", "", true, "all resources are in the servers of --etcd-servers"},
	{"etcd", "etcd-count-metric-poll-period", "", "", false, "the metric is not collected"},
	{"etcd", "etcd-db-metric-poll-interval", "", "", false, "the metric is not collected"},
	{"etcd", "storage-media-type", "", "", false, "built-in kinds are stored as protobuf, custom resources as JSON"},
	{"etcd", "watch-cache-sizes", "", "", false, "the watch cache bounds itself in bytes"},
	{"features", "enable-priority-and-fairness", "", "", false, "requests are limited by --max-requests-inflight and --max-mutating-requests-inflight"},
	{"authentication", "api-audiences", "strings", "", false, "the server signs tokens of ServiceAccounts itself"},
	{"authentication", "service-account-jwks-uri", "string", "", false, "the server signs tokens of ServiceAccounts itself"},
	{"authentication", "service-account-lookup", "bool", "true", false, "the server signs tokens of ServiceAccounts itself"},
	{"authentication", "service-account-extend-token-expiration", "bool", "true", false, "the server signs tokens of ServiceAccounts itself"},
	{"authentication", "service-account-max-token-expiration", "duration", "0", false, "the server signs tokens of ServiceAccounts itself"},
	{"authentication", "service-account-signing-endpoint", "", "", true, "the server signs tokens of ServiceAccounts itself"},
	{"authentication", "enable-bootstrap-token-auth", "bool", "false", false, "bootstrap tokens are not accepted"},
	{"authentication", "authentication-config", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "authentication-token-webhook-config-file", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-ca-file", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-client-id", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-groups-claim", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-groups-prefix", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-issuer-url", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-required-claim", "map", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-signing-algs", "strings", "RS256", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-username-claim", "string", "sub", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "oidc-username-prefix", "string", "", true, "tokens of other issuers are not supported; use --token-auth-file or client certificates"},
	{"authentication", "authentication-token-webhook-cache-ttl", "duration", "2m", false, "there is no token webhook"},
	{"authentication", "authentication-token-webhook-version", "string", "v1beta1", false, "there is no token webhook"},
	{"authorization", "authorization-config", "string", "", true, "use --authorization-mode"},
	{"authorization", "authorization-policy-file", "string", "", true, "the mode ABAC is not supported"},
	{"authorization", "authorization-webhook-config-file", "string", "", true, "the mode Webhook is not supported"},
	{"authorization", "authorization-webhook-cache-authorized-ttl", "duration", "5m", false, "the mode Webhook is not supported"},
	{"authorization", "authorization-webhook-cache-unauthorized-ttl", "duration", "30s", false, "the mode Webhook is not supported"},
	{"authorization", "authorization-webhook-version", "string", "v1beta1", false, "the mode Webhook is not supported"},
	{"egress selector", "egress-selector-config-file", "string", "", true, "the server dials directly"},
	{"admission", "admission-control", "strings", "", true, "use --enable-admission-plugins and --disable-admission-plugins"},
	{"admission", "default-not-ready-toleration-seconds", "int", "300", false, "Pods get 300 seconds"},
	{"admission", "default-unreachable-toleration-seconds", "int", "300", false, "Pods get 300 seconds"},
	{"misc", "aggregator-reject-forwarding-redirect", "bool", "true", false, "redirects of aggregated servers are refused"},
	{"misc", "coordinated-leadership-lease-duration", "duration", "15s", false, "there is one API server"},
	{"misc", "coordinated-leadership-renew-deadline", "duration", "10s", false, "there is one API server"},
	{"misc", "coordinated-leadership-retry-period", "duration", "2s", false, "there is one API server"},
	{"misc", "enable-logs-handler", "bool", "false", false, "there is no /logs"},
	{"misc", "endpoint-reconciler-type", "string", "lease", false, "the Endpoints of the Service kubernetes are written once, at the start"},
	{"misc", "apiserver-count", "int", "1", false, "there is one API server"},
	{"misc", "event-ttl", "duration", "1h", false, "Events live for an hour"},
	{"misc", "kubelet-certificate-authority", "string", "", false, "there is no kubelet"},
	{"misc", "kubelet-client-certificate", "string", "", false, "there is no kubelet"},
	{"misc", "kubelet-client-key", "string", "", false, "there is no kubelet"},
	{"misc", "kubelet-preferred-address-types", "strings", "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP", false, "there is no kubelet"},
	{"misc", "kubelet-timeout", "duration", "5s", false, "there is no kubelet"},
	{"misc", "kubelet-port", "int", "10250", false, "there is no kubelet"},
	{"misc", "kubernetes-service-node-port", "int", "0", false, "the Service kubernetes is of type ClusterIP"},
	{"misc", "max-connection-bytes-per-sec", "int", "0", false, "connections are not throttled"},
	{"misc", "peer-advertise-ip", "string", "", false, "there is one API server"},
	{"misc", "peer-advertise-port", "string", "", false, "there is one API server"},
	{"misc", "peer-ca-file", "string", "", false, "there is one API server"},
	{"misc", "service-cluster-ip-range", "string", "10.0.0.0/24", false, "Services get addresses of 10.0.0.0/24"},
	{"misc", "service-node-port-range", "string", "30000-32767", false, "Services get ports of 30000-32767"},
	{"misc", "allow-privileged", "bool", "true", false, "privileged containers are always allowed"},
}
