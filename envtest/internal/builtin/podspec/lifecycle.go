// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// probes checks the three probes of a container.
func (f *PodCheck) probes(c *corev1.Container, at *field.Path) {
	f.probe(c.LivenessProbe, at.Child("livenessProbe"))
	f.succeedsOnce(c.LivenessProbe, at.Child("livenessProbe"))
	f.probe(c.ReadinessProbe, at.Child("readinessProbe"))
	if c.ReadinessProbe != nil && c.ReadinessProbe.TerminationGracePeriodSeconds != nil {
		f.Invalid(true, at.Child("readinessProbe", "terminationGracePeriodSeconds"), *c.ReadinessProbe.TerminationGracePeriodSeconds,
			"must not be set for readinessProbes")
	}
	f.probe(c.StartupProbe, at.Child("startupProbe"))
	f.succeedsOnce(c.StartupProbe, at.Child("startupProbe"))
}

func (f *PodCheck) succeedsOnce(probe *corev1.Probe, at *field.Path) {
	if probe != nil {
		f.Invalid(probe.SuccessThreshold != 1, at.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
}

func (f *PodCheck) probe(probe *corev1.Probe, at *field.Path) {
	if probe == nil {
		return
	}
	f.handler(handler{probe.Exec, probe.HTTPGet, probe.TCPSocket, probe.GRPC, nil}, at)
	f.NotNegative(int64(probe.InitialDelaySeconds), at.Child("initialDelaySeconds"))
	f.NotNegative(int64(probe.TimeoutSeconds), at.Child("timeoutSeconds"))
	f.NotNegative(int64(probe.PeriodSeconds), at.Child("periodSeconds"))
	f.NotNegative(int64(probe.SuccessThreshold), at.Child("successThreshold"))
	f.NotNegative(int64(probe.FailureThreshold), at.Child("failureThreshold"))
	if seconds := probe.TerminationGracePeriodSeconds; seconds != nil {
		f.Invalid(*seconds <= 0, at.Child("terminationGracePeriodSeconds"), *seconds, "must be greater than 0")
	}
}

// handler is what a probe or a hook of a container does.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func (f *PodCheck) handler(h handler, at *field.Path) {
	f.ExactlyOne(at, "may not specify more than 1 handler type", "must specify a handler type", []kind.Alternative{
		{Name: "exec", Given: h.exec != nil, Check: func(at *field.Path) { f.Need(len(h.exec.Command) > 0, at.Child("command")) }},
		{Name: "httpGet", Given: h.http != nil, Check: func(at *field.Path) {
			f.Text(h.http.Path, at.Child("path"))
			CheckPort(&f.Findings, h.http.Port, at.Child("port"))
			kind.Known(&f.Findings, h.http.Scheme, at.Child("scheme"), corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
			for _, header := range h.http.HTTPHeaders {
				f.Messages(validation.IsHTTPHeaderName(header.Name), header.Name, at.Child("httpHeaders"))
			}
		}},
		{Name: "tcpSocket", Given: h.tcp != nil, Check: func(at *field.Path) { CheckPort(&f.Findings, h.tcp.Port, at.Child("port")) }},
		{Name: "grpc", Given: h.grpc != nil, Check: func(at *field.Path) { CheckPort(&f.Findings, intstr.FromInt32(h.grpc.Port), at.Child("port")) }},
		{Name: "sleep", Given: h.sleep != nil, Check: func(at *field.Path) {
			longest := f.Spec.TerminationGracePeriodSeconds
			f.Invalid(longest != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *longest), at, h.sleep.Seconds,
				"must be non-negative and less than terminationGracePeriodSeconds")
		}},
	})
}

// CheckPort checks the number or the name of a port.
func CheckPort(f *kind.Findings, port intstr.IntOrString, at *field.Path) {
	if port.Type == intstr.Int {
		f.Messages(validation.IsValidPortNum(port.IntValue()), port.IntValue(), at)
		return
	}
	f.Messages(validation.IsValidPortName(port.StrVal), port.StrVal, at)
}

func (f *PodCheck) lifecycle(l *corev1.Lifecycle, at *field.Path) {
	if l == nil {
		return
	}
	if h := l.PostStart; h != nil {
		f.handler(handler{h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep}, at.Child("postStart"))
	}
	if h := l.PreStop; h != nil {
		f.handler(handler{h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep}, at.Child("preStop"))
	}
}

// restartPolicy checks how a container is restarted, beside the policy of the Pod.
func (f *PodCheck) restartPolicy(policy *corev1.ContainerRestartPolicy, rules []corev1.ContainerRestartRule, at *field.Path) {
	f.Need(policy != nil || len(rules) == 0, at.Child("restartPolicy"))
	kind.Chosen(&f.Findings, policy, at.Child("restartPolicy"),
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	at = at.Child("restartPolicyRules")
	if len(rules) > 20 {
		f.List = append(f.List, field.TooMany(at, len(rules), 20))
	}
	for i, rule := range rules {
		here := at.Index(i)
		kind.Known(&f.Findings, rule.Action, here.Child("action"), corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := rule.ExitCodes
		if f.Need(codes != nil, here.Child("exitCodes")); codes == nil {
			continue
		}
		kind.Known(&f.Findings, codes.Operator, here.Child("exitCodes", "operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if len(codes.Values) > 255 {
			f.List = append(f.List, field.TooMany(here.Child("exitCodes", "values"), len(codes.Values), 255))
		}
	}
}

// resizePolicy reports all but doubles at the list, as a kube-apiserver does.
func (f *PodCheck) resizePolicy(policies []corev1.ContainerResizePolicy, at *field.Path) {
	seen := sets.New[string]()
	for i, policy := range policies {
		f.Unique(string(policy.ResourceName), seen, at.Index(i))
		kind.Choice(&f.Findings, policy.ResourceName, at, corev1.ResourceCPU, corev1.ResourceMemory)
		kind.Choice(&f.Findings, policy.RestartPolicy, at, corev1.NotRequired, corev1.RestartContainer)
		f.Invalid(f.Spec.RestartPolicy == corev1.RestartPolicyNever && policy.RestartPolicy != corev1.NotRequired, at, policy.RestartPolicy,
			"must be 'NotRequired' when pod `restartPolicy` is 'Never'")
	}
}

// claimNames checks which of the Pod's claims a container uses.
func (f *PodCheck) claimNames(claims []corev1.ResourceClaim, at *field.Path) {
	seen := sets.New[string]()
	for i, claim := range claims {
		here := at.Index(i)
		if !f.Text(claim.Name, here) {
			continue
		}
		f.claimName(claim, seen, here)
		if !f.claims.Has(claim.Name) {
			f.List = append(f.List, field.NotFound(here, claim.Name))
		}
	}
}

func (f *PodCheck) claimName(claim corev1.ResourceClaim, seen sets.Set[string], at *field.Path) {
	if seen.Has(claim.Name) {
		f.List = append(f.List, field.Duplicate(at, claim.Name))
		return
	}
	key := claim.Name
	if claim.Request != "" {
		f.Label(claim.Request, at.Child("request"))
		key = fmt.Sprintf("%s/%s", claim.Name, claim.Request)
	}
	of := func(other string) bool {
		return claim.Request == "" && len(other) > len(key) && other[:len(key)+1] == key+"/"
	}
	if seen.Has(key) || slices.ContainsFunc(seen.UnsortedList(), of) {
		f.List = append(f.List, field.Duplicate(at, key))
	}
	seen.Insert(key)
}
