// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"
)

// parse reads a command line with what kube-apiserver requires, and args.
func parse(t *testing.T, args ...string) (*Flags, []string, error) {
	t.Helper()
	g := NewWithT(t)
	f, err := New()
	g.Expect(err).NotTo(HaveOccurred())
	key := filepath.Join(t.TempDir(), "sa.key")
	pem, err := keyutil.MakeEllipticPrivateKeyPEM()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(key, pem, 0o600)).To(Succeed())
	set := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, one := range f.Sets().FlagSets {
		set.AddFlagSet(one)
	}
	args = append([]string{
		"--etcd-servers=http://127.0.0.1:1", "--service-account-issuer=https://localhost",
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
	}, args...)
	if err := set.Parse(args); err != nil {
		return f, nil, err
	}
	notices, err := f.Check(set)
	return f, notices, err
}

// TestEveryFlagIsKnown compares the flags with those of kube-apiserver v1.36.
func TestEveryFlagIsKnown(t *testing.T) {
	g := NewWithT(t)
	f, err := New()
	g.Expect(err).NotTo(HaveOccurred())
	data, err := os.ReadFile(filepath.Join("testdata", "flags-v1.36.txt"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range strings.Fields(string(data)) {
		found := false
		for _, set := range f.Sets().FlagSets {
			found = found || set.Lookup(name) != nil
		}
		g.Expect(found).To(BeTrue(), "--%s", name)
	}
}

// TestTheTableHasNoDeadRows finds rows of flags that do not exist.
func TestTheTableHasNoDeadRows(t *testing.T) {
	g := NewWithT(t)
	f, err := New()
	g.Expect(err).NotTo(HaveOccurred())
	for _, entry := range table {
		flag := f.Sets().FlagSet(entry.set).Lookup(entry.name)
		g.Expect(flag).NotTo(BeNil(), entry.name)
		g.Expect(flag.Usage).To(Equal(entry.usage()), entry.name)
		if entry.preset != "" && entry.kind == "string" {
			g.Expect(flag.DefValue).To(Equal(entry.preset), entry.name)
		}
	}
}

func TestDefaultsPass(t *testing.T) {
	g := NewWithT(t)
	f, notices, err := parse(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notices).To(BeEmpty())
	g.Expect(f.Access.Modes).To(Equal([]string{ModeAlwaysAllow}))
	g.Expect(f.Access.Anonymous).To(BeFalse(), "as with kube-apiserver, where everything is allowed")
}

func TestWhatBecomesOfAFlag(t *testing.T) {
	for _, c := range []struct{ arg, err, notice string }{
		{arg: "--unknown-flag=1", err: "unknown flag: --unknown-flag"},
		{arg: "--secure-port=many", err: `invalid argument "many" for "--secure-port" flag`},
		{arg: "--enable-admission-plugins=NoSuchPlugin", err: `enable-admission-plugins plugin "NoSuchPlugin" is unknown`},
		{arg: "--disable-admission-plugins=NoSuchPlugin", err: `disable-admission-plugins plugin "NoSuchPlugin" is unknown`},
		{arg: "--runtime-config=no.such/v1=true", err: "unknown api groups no.such/v1"},
		{arg: "--authorization-mode=Everything", err: `authorization-mode "Everything" is not a valid mode`},
		{arg: "--authorization-mode=Webhook", err: "--authorization-mode=Webhook is not supported"},
		{arg: "--oidc-issuer-url=https://example.com", err: "--oidc-issuer-url is not supported"},
		{arg: "--encryption-provider-config=/file", err: "--encryption-provider-config is not supported"},
		{arg: "--service-account-key-file=/none", err: "no such file"},
		{arg: "--service-account-issuer=", err: "service-account-issuer should not be an empty string"},
		{arg: "--service-account-issuer=https://localhost", err: `service-account-issuer "https://localhost" is already specified`},
		{arg: "--service-account-issuer=1:2", err: `service-account-issuer "1:2" contained a ':' but was not a valid URL`},
		{arg: "--service-account-issuer=https://other"},
		{arg: "--storage-backend=memory", err: "--storage-backend invalid"},
		{arg: "--authorization-mode=Node,RBAC", notice: "--authorization-mode=Node has no effect"},
		{arg: "--advertise-address=127.0.0.1", notice: "--advertise-address has no effect"},
		{arg: "--allow-privileged=false", notice: "--allow-privileged has no effect"},
		{arg: "--service-account-signing-endpoint=/socket", err: "--service-account-signing-endpoint is not supported"},
		{arg: "--event-ttl=2h", notice: "--event-ttl has no effect"},
		{arg: "--service-cluster-ip-range=10.1.0.0/16", notice: "--service-cluster-ip-range has no effect"},
		{arg: "--enable-admission-plugins=PodNodeSelector", notice: "PodNodeSelector has no effect"},
		{arg: "--enable-admission-plugins=ResourceQuota,OwnerReferencesPermissionEnforcement"},
		{arg: "--disable-admission-plugins=ResourceQuota"},
		{arg: "--enable-aggregator-routing"},
		{arg: "--proxy-client-cert-file=/none", err: "--proxy-client-cert-file and --proxy-client-key-file must be specified together"},
		{arg: "--feature-gates=DynamicResourceAllocation=true", notice: "DynamicResourceAllocation has no effect"},
		{arg: "--service-cluster-ip-range=10.0.0.0/24"},
		{arg: "--allow-privileged=true"},
		{arg: "--disable-admission-plugins=ServiceAccount"},
		{arg: "--disable_admission_plugins=Priority"},
		{arg: "--runtime-config=api/all=true"},
		{arg: "-v=0"},
	} {
		t.Run(c.arg, func(t *testing.T) {
			g := NewWithT(t)
			_, notices, err := parse(t, c.arg)
			if c.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			if c.notice == "" {
				g.Expect(notices).To(BeEmpty())
			} else {
				g.Expect(notices).To(ContainElement(ContainSubstring(c.notice)))
			}
		})
	}
}
