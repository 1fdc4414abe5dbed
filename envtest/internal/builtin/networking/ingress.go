// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package networking

import (
	"net/netip"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/service"
)

func validateIngress(ingress, old *networkingv1.Ingress) field.ErrorList {
	var f kind.Findings
	spec, at := &ingress.Spec, kind.SpecPath()
	f.Invalid(len(spec.Rules) == 0 && spec.DefaultBackend == nil, at, spec.Rules, "either `defaultBackend` or `rules` must be specified")
	if spec.DefaultBackend != nil {
		checkIngressBackend(&f, spec.DefaultBackend, at.Child("defaultBackend"))
	}
	for i, rule := range spec.Rules {
		here := at.Child("rules").Index(i)
		_, err := netip.ParseAddr(rule.Host)
		f.Invalid(err == nil, here.Child("host"), rule.Host, "must be a DNS name, not an IP address")
		checkHost(&f, rule.Host, here.Child("host"))
		if rule.HTTP == nil {
			continue
		}
		f.Need(len(rule.HTTP.Paths) > 0, here.Child("http", "paths"))
		for j := range rule.HTTP.Paths {
			checkIngressPath(&f, &rule.HTTP.Paths[j], here.Child("http", "paths").Index(j))
		}
	}
	for i, tls := range spec.TLS {
		here := at.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			if host == "" {
				f.Subdomain(host, here.Child("hosts").Index(j))
			}
			checkHost(&f, host, here.Child("hosts").Index(j))
		}
		if tls.SecretName != "" {
			f.Subdomain(tls.SecretName, here.Child("secretName"))
		}
	}
	if spec.IngressClassName != nil {
		f.Subdomain(*spec.IngressClassName, at.Child("ingressClassName"))
	}
	const annotation = "kubernetes.io/ingress.class"
	named, ok := ingress.Annotations[annotation]
	f.Invalid(old == nil && ok && spec.IngressClassName != nil && named != *spec.IngressClassName, field.NewPath("annotations").Child(annotation), named,
		"must match `ingressClassName` when both are specified")
	return f.List
}

// checkHost checks the name of a host, which may begin with "*.".
func checkHost(f *kind.Findings, host string, at *field.Path) {
	switch {
	case host == "":
	case strings.Contains(host, "*"):
		f.Messages(validation.IsWildcardDNS1123Subdomain(host), host, at)
	default:
		f.Subdomain(host, at)
	}
}

func checkIngressPath(f *kind.Findings, p *networkingv1.HTTPIngressPath, at *field.Path) {
	if p.PathType == nil {
		f.Need(false, at.Child("pathType"))
		return
	}
	here := at.Child("path")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		f.Invalid(!strings.HasPrefix(p.Path, "/"), here, p.Path, "must be an absolute path")
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			f.Invalid(strings.Contains(p.Path, part), here, p.Path, "must not contain '"+part+"'")
		}
		for _, end := range []string{"/..", "/."} {
			f.Invalid(strings.HasSuffix(p.Path, end), here, p.Path, "cannot end with '"+end+"'")
		}
	case networkingv1.PathTypeImplementationSpecific:
		f.Invalid(p.Path != "" && !strings.HasPrefix(p.Path, "/"), here, p.Path, "must be an absolute path")
	default:
		kind.Known(f, *p.PathType, at.Child("pathType"), networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	checkIngressBackend(f, &p.Backend, at.Child("backend"))
}

func checkIngressBackend(f *kind.Findings, backend *networkingv1.IngressBackend, at *field.Path) {
	service := backend.Service
	switch {
	case service != nil && backend.Resource != nil:
		f.Invalid(true, at, "", "cannot set both resource and service backends")
		return
	case backend.Resource != nil:
		checkLocalReference(f, backend.Resource.APIGroup, backend.Resource.Kind, backend.Resource.Name, at.Child("resource"))
		return
	case service == nil:
		f.Invalid(true, at, "", "resource or service backend is required")
		return
	}
	if f.Text(service.Name, at.Child("service", "name")) {
		f.Label(service.Name, at.Child("service", "name"))
	}
	named, numbered := service.Port.Name != "", service.Port.Number != 0
	switch {
	case named && numbered:
		f.Invalid(true, at, "", "cannot set both port name & port number")
	case named:
		f.Messages(validation.IsValidPortName(service.Port.Name), service.Port.Name, at.Child("service", "port", "name"))
	case numbered:
		f.Messages(validation.IsValidPortNum(int(service.Port.Number)), service.Port.Number, at.Child("service", "port", "number"))
	default:
		f.Need(false, at)
	}
}

// checkLocalReference checks a reference to an object of any group.
func checkLocalReference(f *kind.Findings, group *string, kind, name string, at *field.Path) {
	if group != nil {
		f.Subdomain(*group, at.Child("apiGroup"))
	}
	f.PathSegmentName(kind, at.Child("kind"))
	f.PathSegmentName(name, at.Child("name"))
}

func validateIngressStatus(ingress, old *networkingv1.Ingress) field.ErrorList {
	var f kind.Findings
	var before []string
	for _, at := range old.Status.LoadBalancer.Ingress {
		before = append(before, at.IP)
	}
	for i, balancer := range ingress.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		service.CheckBalancer(&f, balancer.IP, balancer.Hostname, before, at)
	}
	return f.List
}

func validateIngressClass(class, old *networkingv1.IngressClass) field.ErrorList {
	var f kind.Findings
	at := kind.SpecPath()
	if len(class.Spec.Controller) > 250 {
		f.List = append(f.List, field.TooLong(at.Child("controller"), "", 250))
	}
	f.Add(validation.IsDomainPrefixedPath(at.Child("controller"), class.Spec.Controller))
	if p := class.Spec.Parameters; p != nil {
		at := at.Child("parameters")
		checkLocalReference(&f, p.APIGroup, p.Kind, p.Name, at)
		if f.Need(p.Scope != nil, at.Child("scope")); p.Scope != nil {
			kind.Known(&f, *p.Scope, at.Child("scope"), networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)
			switch *p.Scope {
			case networkingv1.IngressClassParametersReferenceScopeNamespace:
				if f.Need(p.Namespace != nil, at.Child("namespace")); p.Namespace != nil {
					f.Messages(apivalidation.ValidateNamespaceName(*p.Namespace, false), *p.Namespace, at.Child("namespace"))
				}
			case networkingv1.IngressClassParametersReferenceScopeCluster:
				f.Forbid(p.Namespace != nil, at.Child("namespace"), "`parameters.scope` is set to 'Cluster'")
			}
		}
	}
	if old != nil {
		f.Add(kind.Frozen(class.Spec.Controller, old.Spec.Controller, at.Child("controller")))
	}
	return f.List
}
