// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

const longestProfile = 4095 // of a path that a kernel takes

func (f *PodCheck) containerSecurity(s *corev1.SecurityContext, at *field.Path) {
	if s == nil {
		return
	}
	f.ids(s.RunAsUser, s.RunAsGroup, at)
	if s.ProcMount != nil {
		kind.Known(&f.Findings, *s.ProcMount, at.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		f.Invalid(*s.ProcMount == corev1.UnmaskedProcMount && (f.Spec.HostUsers == nil || *f.Spec.HostUsers), at.Child("procMount"), *s.ProcMount,
			"`hostUsers` must be false to use `Unmasked`")
	}
	f.seccomp(s.SeccompProfile, at.Child("seccompProfile"))
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		f.Invalid(kind.IsTrue(s.Privileged), at, s, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		f.Invalid(s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN"), at, s,
			"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
	}
	f.windows(s.WindowsOptions, at.Child("windowsOptions"))
	f.AppArmor(s.AppArmorProfile, at.Child("appArmorProfile"))
}

func (f *PodCheck) ids(user, group *int64, at *field.Path) {
	if user != nil {
		f.Messages(validation.IsValidUserID(*user), *user, at.Child("runAsUser"))
	}
	if group != nil {
		f.Messages(validation.IsValidGroupID(*group), *group, at.Child("runAsGroup"))
	}
}

func (f *PodCheck) podSecurity(s *corev1.PodSecurityContext, at *field.Path) {
	if s == nil {
		return
	}
	f.ids(s.RunAsUser, s.RunAsGroup, at)
	if s.FSGroup != nil {
		f.Messages(validation.IsValidGroupID(*s.FSGroup), *s.FSGroup, at.Child("fsGroup"))
	}
	for i, group := range s.SupplementalGroups {
		f.Messages(validation.IsValidGroupID(group), group, at.Child("supplementalGroups").Index(i))
	}
	share := f.Spec.ShareProcessNamespace
	f.Invalid(f.Spec.HostPID && kind.IsTrue(share), at.Child("shareProcessNamespace"), share, "ShareProcessNamespace and HostPID cannot both be enabled")
	f.sysctls(s.Sysctls, at.Child("sysctls"))
	kind.Chosen(&f.Findings, s.FSGroupChangePolicy, at.Child("fsGroupChangePolicy"), corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)
	f.seccomp(s.SeccompProfile, at.Child("seccompProfile"))
	f.windows(s.WindowsOptions, at.Child("windowsOptions"))
	f.AppArmor(s.AppArmorProfile, at.Child("appArmorProfile"))
	kind.Chosen(&f.Findings, s.SupplementalGroupsPolicy, at.Child("supplementalGroupsPolicy"), corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	kind.Chosen(&f.Findings, s.SELinuxChangePolicy, at.Child("seLinuxChangePolicy"), corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption)
}

var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func (f *PodCheck) sysctls(list []corev1.Sysctl, at *field.Path) {
	seen := sets.New[string]()
	for i, s := range list {
		here := at.Index(i).Child("name")
		switch {
		case s.Name == "":
			f.Need(false, here)
		case len(s.Name) > 253 || !sysctlName.MatchString(s.Name):
			f.Invalid(true, here, s.Name, "must have at most 253 characters and match regex "+sysctlName.String())
		case seen.Has(s.Name):
			f.List = append(f.List, field.Duplicate(here, s.Name))
		}
		seen.Insert(s.Name)
		name := strings.ReplaceAll(s.Name, "/", ".")
		f.Invalid(f.Spec.HostNetwork && strings.HasPrefix(name, "net."), here, s.Name, "may not be specified when 'hostNetwork' is true")
		ipc := strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || strings.HasPrefix(name, "fs.mqueue.") || name == "kernel.sem"
		f.Invalid(f.Spec.HostIPC && ipc, here, s.Name, "may not be specified when 'hostIPC' is true")
	}
}

func (f *PodCheck) seccomp(p *corev1.SeccompProfile, at *field.Path) {
	if p == nil {
		return
	}
	kind.Choice(&f.Findings, p.Type, at.Child("type"), corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	profile := at.Child("localhostProfile")
	if p.Type != corev1.SeccompProfileTypeLocalhost {
		f.Invalid(p.LocalhostProfile != nil, profile, p, "can only be set when seccomp type is Localhost")
		return
	}
	if f.Need(p.LocalhostProfile != nil, profile); p.LocalhostProfile != nil {
		checkDescending(&f.Findings, *p.LocalhostProfile, profile)
	}
}

func (f *PodCheck) AppArmor(p *corev1.AppArmorProfile, at *field.Path) {
	if p == nil {
		return
	}
	kind.Choice(&f.Findings, p.Type, at.Child("type"), corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	profile := at.Child("localhostProfile")
	switch p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			f.Need(false, profile)
			return
		}
		f.Invalid(strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile, profile, *p.LocalhostProfile, "must not be padded with whitespace")
		if len(*p.LocalhostProfile) > longestProfile {
			f.List = append(f.List, field.TooLong(profile, "", longestProfile))
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		f.Invalid(p.LocalhostProfile != nil, profile, p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
	}
}

var (
	control       = regexp.MustCompile(`[[:cntrl:]]+`)
	netBios       = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	windowsDomain = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	windowsUser   = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`)
	onlyDots      = regexp.MustCompile(`^[\. ]+$`)
)

func (f *PodCheck) windows(w *corev1.WindowsSecurityContextOptions, at *field.Path) {
	if w == nil {
		return
	}
	if w.GMSACredentialSpecName != nil {
		f.Subdomain(*w.GMSACredentialSpecName, at.Child("gmsaCredentialSpecName"))
	}
	if w.GMSACredentialSpec != nil {
		size := len(*w.GMSACredentialSpec)
		f.Invalid(size == 0, at.Child("gmsaCredentialSpec"), "", "gmsaCredentialSpec cannot be an empty string")
		f.Invalid(size > 64<<10, at.Child("gmsaCredentialSpec"), "", "gmsaCredentialSpec size must be under 64 KiB")
	}
	if w.RunAsUserName != nil {
		f.windowsUser(*w.RunAsUserName, at.Child("runAsUserName"))
	}
}

func (f *PodCheck) windowsUser(name string, at *field.Path) {
	parts := strings.Split(name, `\`)
	switch {
	case name == "":
		f.Invalid(true, at, name, "runAsUserName cannot be an empty string")
		return
	case control.MatchString(name):
		f.Invalid(true, at, name, "runAsUserName cannot contain control characters")
		return
	case len(parts) > 2:
		f.Invalid(true, at, name, "runAsUserName cannot contain more than one backslash")
		return
	}
	user := parts[len(parts)-1]
	if len(parts) == 2 {
		f.Invalid(len(parts[0]) >= 256, at, name, "runAsUserName's Domain length must be under 256 characters")
		f.Invalid(!netBios.MatchString(parts[0]) && !windowsDomain.MatchString(parts[0]), at, name,
			"runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	f.Invalid(user == "", at, name, "runAsUserName's User cannot be empty")
	f.Invalid(len(user) > 104, at, name, "runAsUserName's User length must not be longer than 104 characters")
	f.Invalid(onlyDots.MatchString(user), at, name, "runAsUserName's User cannot contain only periods or spaces")
	f.Invalid(windowsUser.MatchString(user), at, name, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
}

// EveryContainer calls visit for each container of a Pod.
func EveryContainer(spec *corev1.PodSpec, at *field.Path, visit func(c *corev1.Container, at *field.Path)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], at.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], at.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		visit((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), at.Child("ephemeralContainers").Index(i))
	}
}

func hostProcess(w *corev1.WindowsSecurityContextOptions) *bool {
	if w == nil {
		return nil
	}
	return w.HostProcess
}

// hostProcesses checks that all containers, or none, are processes of a Windows node.
func (f *PodCheck) hostProcesses(at *field.Path) {
	var pod *bool
	if f.Spec.SecurityContext != nil {
		pod = hostProcess(f.Spec.SecurityContext.WindowsOptions)
	}
	containers, onHost := 0, 0
	EveryContainer(f.Spec, at, func(c *corev1.Container, at *field.Path) {
		containers++
		var own *bool
		if c.SecurityContext != nil {
			own = hostProcess(c.SecurityContext.WindowsOptions)
		}
		f.Invalid(pod != nil && own != nil && *pod != *own, at.Child("securityContext", "windowsOptions", "hostProcess"), own,
			"pod hostProcess value must be identical if both are specified")
		if kind.IsTrue(own) || own == nil && kind.IsTrue(pod) {
			onHost++
		}
	})
	if onHost > 0 {
		f.Invalid(onHost != containers, at, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
		f.Invalid(!f.Spec.HostNetwork, at.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}

// windowsPod refuses what only Linux has: every field of a security context that is not of Windows.
func (f *PodCheck) windowsPod(at *field.Path) {
	const message = "cannot be set for a windows pod"
	for _, is := range []struct {
		given bool
		name  string
	}{
		{f.Spec.HostUsers != nil, "hostUsers"}, {f.Spec.HostPID, "hostPID"}, {f.Spec.HostIPC, "hostIPC"},
		{f.Spec.ShareProcessNamespace != nil, "shareProcessNamespace"},
	} {
		f.Forbid(is.given, at.Child(is.name), message)
	}
	f.onlyFields(f.Spec.SecurityContext, at.Child("securityContext"), message, "windowsOptions", "runAsNonRoot")
	EveryContainer(f.Spec, at, func(c *corev1.Container, at *field.Path) {
		f.onlyFields(c.SecurityContext, at.Child("securityContext"), message, "windowsOptions", "runAsNonRoot")
	})
}

// onlyFields refuses the fields of a struct that are set, but for some. They are named as in JSON.
func (f *PodCheck) onlyFields(pointer any, at *field.Path, message string, but ...string) {
	v := reflect.ValueOf(pointer)
	if v.IsNil() {
		return
	}
	v = v.Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f.Forbid(!v.Field(i).IsZero() && !slices.Contains(but, name), at.Child(name), message)
	}
}
