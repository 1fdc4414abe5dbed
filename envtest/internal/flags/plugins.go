// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Plugins are the flags about admission.
type Plugins struct {
	Enable     []string
	Disable    []string
	ConfigFile string
}

// here are the plugins that are on by default, as in kube-apiserver: NamespaceLifecycle, those of builtin/admission, and the last plugins of
// internal/admission.
const here = `NamespaceLifecycle LimitRanger TaintNodesByCondition PodSecurity Priority DefaultTolerationSeconds DefaultStorageClass
StorageObjectInUseProtection PersistentVolumeClaimResize RuntimeClass DefaultIngressClass
CertificateApproval CertificateSigning CertificateSubjectRestriction
MutatingAdmissionPolicy MutatingAdmissionWebhook ValidatingAdmissionPolicy ValidatingAdmissionWebhook
ResourceQuota`

// optional are the plugins that are off by default, as in kube-apiserver.
const optional = `OwnerReferencesPermissionEnforcement`

// elsewhere are the plugins that kube-apiserver v1.36 has besides, as its help lists them.
const elsewhere = `AlwaysAdmit AlwaysDeny AlwaysPullImages
ClusterTrustBundleAttest DenyServiceExternalIPs EventRateLimit
ExtendedResourceToleration ImagePolicyWebhook JobValidation LimitPodHardAntiAffinityTopology NamespaceAutoProvision
NamespaceExists NodeDeclaredFeatureValidator NodeRestriction
PodGroupProtection PodGroupWorkloadExists PodNodeSelector PodResizeValidator PodTolerationRestriction
PodTopologyLabels ServiceAccount`

func (p *Plugins) addFlags(set *pflag.FlagSet) {
	names := strings.Join(strings.Fields(here), ", ")
	set.StringSliceVar(&p.Enable, "enable-admission-plugins", nil,
		"admission plugins that should be enabled in addition to default enabled ones ("+names+").")
	set.StringSliceVar(&p.Disable, "disable-admission-plugins", nil,
		"admission plugins that should be disabled although they are in the default enabled plugins list ("+names+").")
	set.StringVar(&p.ConfigFile, "admission-control-config-file", "", "File with admission control configuration.")
}

// Off says whether a plugin of this server is not to run.
func (p *Plugins) Off(name string) bool {
	return slices.Contains(p.Disable, name) || slices.Contains(strings.Fields(optional), name) && !slices.Contains(p.Enable, name)
}

// Missing are the plugins to be enabled that are not in this server.
func (p *Plugins) Missing() []string {
	return slices.DeleteFunc(slices.Clone(p.Enable), func(name string) bool { return !slices.Contains(strings.Fields(elsewhere), name) })
}

// Here are the plugins of this server.
func Here() []string { return append(strings.Fields(here), strings.Fields(optional)...) }

// Validate reports names that kube-apiserver does not know either, and plugins that are to be both on and off.
func (p *Plugins) Validate() []error {
	var errs []error
	known := append(Here(), strings.Fields(elsewhere)...)
	for flag, names := range map[string][]string{"enable": p.Enable, "disable": p.Disable} {
		for _, name := range names {
			if !slices.Contains(known, name) {
				errs = append(errs, fmt.Errorf("%s-admission-plugins plugin %q is unknown", flag, name))
			}
		}
	}
	for _, name := range p.Enable {
		if slices.Contains(p.Disable, name) {
			errs = append(errs, fmt.Errorf("[%s] in enable-admission-plugins and disable-admission-plugins overlapped", name))
		}
	}
	return errs
}

// notices tells of plugins that were asked for and are not here.
func (p *Plugins) notices() []string {
	var notices []string
	for _, name := range p.Missing() {
		notices = append(notices, fmt.Sprintf("--enable-admission-plugins: %s has no effect: the plugin is not in this server", name))
	}
	return notices
}
