// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sample is the smallest valid object of a built-in kind, and what can be done to it.
type sample struct {
	resource schema.GroupVersionResource
	kind     string
	cluster  bool   // cluster-scoped
	name     string // if it cannot be any name
	content  string // JSON of everything but kind and metadata
	change   string // merge patch that changes the desired state, or metadata when nothing else can change
	counted  bool   // change makes a new generation
	status   string // merge patch of the status subresource, "" if there is none
}

func resource(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

const (
	relabel     = `{"metadata":{"labels":{"changed":"yes"}}}`
	podSpec     = `{"containers":[{"name":"main","image":"example.com/image:1"}]}`
	template    = `{"metadata":{"labels":{"app":"sample"}},"spec":` + podSpec + `}`
	selector    = `{"matchLabels":{"app":"sample"}}`
	jobTemplate = `{"metadata":{"labels":{"app":"sample"}},"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"example.com/image:1"}]}}`
	replicas    = `{"spec":{"replicas":3}}`
	rule        = `{"operations":["CREATE"],"apiGroups":["tarn.example.com"],"apiVersions":["v1"],"resources":["nothings"]}`
	webhooks    = `{"webhooks":[{"name":"hook.tarn.example.com","clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[` + rule +
		`],"sideEffects":"None","admissionReviewVersions":["v1"]}]}`
	moreWebhooks = `{"webhooks":[{"name":"hook.tarn.example.com","clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[` + rule +
		`],"sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":3}]}`
	constraints = `"matchConstraints":{"resourceRules":[` + rule + `]}`
)

// samples returns one object of every built-in kind.
func samples() []sample {
	return slices.Concat(coreSamples(), workloadSamples(), clusterSamples(), platformSamples())
}

func coreSamples() []sample {
	core := func(name string) schema.GroupVersionResource { return resource("", "v1", name) }
	return []sample{
		{resource: core("namespaces"), kind: "Namespace", cluster: true, content: `{}`, change: relabel,
			status: `{"status":{"conditions":[{"type":"NamespaceContentRemaining","status":"False"}]}}`},
		{resource: core("nodes"), kind: "Node", cluster: true, content: `{"status":{"capacity":{"cpu":"4"}}}`,
			change: `{"spec":{"unschedulable":true}}`, status: `{"status":{"capacity":{"cpu":"8"}}}`},
		{resource: core("pods"), kind: "Pod", content: `{"spec":` + podSpec + `}`,
			change: `{"spec":{"activeDeadlineSeconds":100}}`, counted: true, status: `{"status":{"phase":"Running"}}`},
		{resource: core("services"), kind: "Service", content: `{"spec":{"selector":{"app":"sample"},"ports":[{"port":80}]}}`,
			change: `{"spec":{"selector":{"app":"other"}}}`, status: `{"status":{"loadBalancer":{}}}`},
		{resource: core("serviceaccounts"), kind: "ServiceAccount", content: `{}`, change: `{"automountServiceAccountToken":false}`},
		{resource: core("configmaps"), kind: "ConfigMap", content: `{"data":{"key":"value"}}`, change: `{"data":{"key":"other"}}`},
		{resource: core("secrets"), kind: "Secret", content: `{"stringData":{"key":"value"}}`, change: `{"stringData":{"key":"other"}}`},
		{resource: core("endpoints"), kind: "Endpoints", content: `{"subsets":[{"addresses":[{"ip":"10.1.1.1"}],"ports":[{"port":80}]}]}`,
			change: `{"subsets":[{"addresses":[{"ip":"10.1.1.2"}],"ports":[{"port":80}]}]}`},
		{resource: core("events"), kind: "Event", content: `{"involvedObject":{"kind":"Pod","namespace":"NAMESPACE","name":"a"},"reason":"Tested"}`,
			change: `{"count":2}`},
		{resource: core("replicationcontrollers"), kind: "ReplicationController", content: `{"spec":{"template":` + template + `}}`,
			change: replicas, counted: true, status: `{"status":{"replicas":1}}`},
		{resource: core("persistentvolumes"), kind: "PersistentVolume", cluster: true,
			content: `{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/data"}}}`,
			change:  `{"spec":{"capacity":{"storage":"2Gi"}}}`, status: `{"status":{"phase":"Available"}}`},
		{resource: core("persistentvolumeclaims"), kind: "PersistentVolumeClaim",
			content: `{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
			change:  `{"spec":{"volumeName":"pv"}}`, status: `{"status":{"phase":"Bound"}}`},
		{resource: core("limitranges"), kind: "LimitRange", content: `{"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}`,
			change: `{"spec":{"limits":[{"type":"Container","max":{"cpu":"2"}}]}}`},
		{resource: core("resourcequotas"), kind: "ResourceQuota", content: `{"spec":{"hard":{"pods":"10"}}}`,
			change: `{"spec":{"hard":{"pods":"20"}}}`, status: `{"status":{"used":{"pods":"1"}}}`},
		{resource: core("podtemplates"), kind: "PodTemplate", content: `{"template":` + template + `}`,
			change: `{"template":{"spec":{"hostname":"other"}}}`, counted: true},
	}
}

func workloadSamples() []sample {
	apps := func(name string) schema.GroupVersionResource { return resource("apps", "v1", name) }
	workload := `{"spec":{"selector":` + selector + `,"template":` + template + `}}`
	return []sample{
		{resource: apps("deployments"), kind: "Deployment", content: workload, change: replicas, counted: true, status: `{"status":{"replicas":1}}`},
		{resource: apps("replicasets"), kind: "ReplicaSet", content: workload, change: replicas, counted: true, status: `{"status":{"replicas":1}}`},
		{resource: apps("statefulsets"), kind: "StatefulSet", content: workload, change: replicas, counted: true, status: `{"status":{"replicas":1}}`},
		{resource: apps("daemonsets"), kind: "DaemonSet", content: workload, change: `{"spec":{"minReadySeconds":3}}`, counted: true,
			status: `{"status":{"currentNumberScheduled":1}}`},
		{resource: apps("controllerrevisions"), kind: "ControllerRevision", content: `{"revision":1,"data":{"a":"b"}}`, change: `{"revision":2}`},
		{resource: resource("batch", "v1", "jobs"), kind: "Job", content: `{"spec":{"template":` + jobTemplate + `}}`,
			change: `{"spec":{"parallelism":3}}`, counted: true, status: `{"status":{"active":1}}`},
		{resource: resource("batch", "v1", "cronjobs"), kind: "CronJob",
			content: `{"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":` + jobTemplate + `}}}}`,
			change:  `{"spec":{"suspend":true}}`, counted: true, status: `{"status":{"lastScheduleTime":"2026-01-01T00:00:00Z"}}`},
		{resource: resource("autoscaling", "v2", "horizontalpodautoscalers"), kind: "HorizontalPodAutoscaler",
			content: `{"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"sample","apiVersion":"apps/v1"}}}`,
			change:  `{"spec":{"maxReplicas":4}}`, status: `{"status":{"currentReplicas":1,"desiredReplicas":1,"currentMetrics":null,"conditions":[]}}`},
	}
}

func clusterSamples() []sample {
	networking := func(name string) schema.GroupVersionResource { return resource("networking.k8s.io", "v1", name) }
	rbac := func(name string) schema.GroupVersionResource {
		return resource("rbac.authorization.k8s.io", "v1", name)
	}
	storage := func(name string) schema.GroupVersionResource { return resource("storage.k8s.io", "v1", name) }
	admission := func(name string) schema.GroupVersionResource {
		return resource("admissionregistration.k8s.io", "v1", name)
	}
	rules := `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`
	moreRules := `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}]}`
	subject := `{"subjects":[{"kind":"User","name":"somebody"}]}`
	return []sample{
		{resource: resource("coordination.k8s.io", "v1", "leases"), kind: "Lease", content: `{"spec":{"holderIdentity":"a"}}`,
			change: `{"spec":{"holderIdentity":"b"}}`},
		{resource: resource("discovery.k8s.io", "v1", "endpointslices"), kind: "EndpointSlice",
			content: `{"addressType":"IPv4","endpoints":[{"addresses":["10.1.1.1"]}],"ports":[{"port":80}]}`,
			change:  `{"endpoints":[{"addresses":["10.1.1.2"]}]}`, counted: true},
		{resource: resource("events.k8s.io", "v1", "events"), kind: "Event",
			content: `{"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"tarn.example.com/test","reportingInstance":"a","action":"Testing","reason":"Tested","type":"Normal",` +
				`"regarding":{"kind":"Pod","namespace":"NAMESPACE","name":"a"}}`,
			change: `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`},
		{resource: networking("ingresses"), kind: "Ingress", content: `{"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}}`,
			change: `{"spec":{"defaultBackend":{"service":{"port":{"number":81}}}}}`, counted: true,
			status: `{"status":{"loadBalancer":{"ingress":[{"ip":"10.1.1.1"}]}}}`},
		{resource: networking("ingressclasses"), kind: "IngressClass", cluster: true, content: `{"spec":{"controller":"example.com/c"}}`,
			change: `{"spec":{"parameters":{"kind":"A","name":"b"}}}`, counted: true},
		{resource: networking("networkpolicies"), kind: "NetworkPolicy", content: `{"spec":{"podSelector":{},"ingress":[{"ports":[{"port":80}]}]}}`,
			change: `{"spec":{"podSelector":{"matchLabels":{"a":"b"}}}}`, counted: true},
		{resource: resource("policy", "v1", "poddisruptionbudgets"), kind: "PodDisruptionBudget",
			content: `{"spec":{"minAvailable":1,"selector":` + selector + `}}`, change: `{"spec":{"minAvailable":2}}`, counted: true,
			status: `{"status":{"disruptionsAllowed":1,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}}`},
		{resource: rbac("roles"), kind: "Role", content: rules, change: moreRules},
		{resource: rbac("clusterroles"), kind: "ClusterRole", cluster: true, content: rules, change: moreRules},
		{resource: rbac("rolebindings"), kind: "RoleBinding", content: `{"roleRef":{"kind":"Role","name":"a"}}`, change: subject},
		{resource: rbac("clusterrolebindings"), kind: "ClusterRoleBinding", cluster: true, content: `{"roleRef":{"kind":"ClusterRole","name":"a"}}`, change: subject},
		{resource: resource("scheduling.k8s.io", "v1", "priorityclasses"), kind: "PriorityClass", cluster: true, content: `{"value":5}`, change: relabel},
		{resource: storage("storageclasses"), kind: "StorageClass", cluster: true, content: `{"provisioner":"example.com/p"}`, change: `{"allowVolumeExpansion":true}`},
		{resource: storage("csidrivers"), kind: "CSIDriver", cluster: true, content: `{"spec":{}}`,
			change: `{"spec":{"requiresRepublish":true}}`, counted: true},
		{resource: storage("csinodes"), kind: "CSINode", cluster: true, content: `{"spec":{"drivers":[]}}`,
			change: `{"spec":{"drivers":[{"name":"csi.example.com","nodeID":"n","topologyKeys":[]}]}}`},
		{resource: storage("volumeattachments"), kind: "VolumeAttachment", cluster: true,
			content: `{"spec":{"attacher":"csi.example.com","nodeName":"n","source":{"persistentVolumeName":"pv"}}}`,
			change:  relabel, status: `{"status":{"attached":true}}`},
		{resource: admission("mutatingwebhookconfigurations"), kind: "MutatingWebhookConfiguration", cluster: true, content: webhooks, change: moreWebhooks, counted: true},
		{resource: admission("validatingwebhookconfigurations"), kind: "ValidatingWebhookConfiguration", cluster: true, content: webhooks, change: moreWebhooks, counted: true},
		{resource: admission("validatingadmissionpolicies"), kind: "ValidatingAdmissionPolicy", cluster: true,
			content: `{"spec":{` + constraints + `,"validations":[{"expression":"true"}]}}`,
			change:  `{"spec":{"failurePolicy":"Ignore"}}`, counted: true, status: `{"status":{"observedGeneration":1}}`},
		{resource: admission("validatingadmissionpolicybindings"), kind: "ValidatingAdmissionPolicyBinding", cluster: true,
			content: `{"spec":{"policyName":"none","validationActions":["Deny"]}}`, change: `{"spec":{"validationActions":["Warn"]}}`, counted: true},
		{resource: admission("mutatingadmissionpolicies"), kind: "MutatingAdmissionPolicy", cluster: true,
			content: `{"spec":{` + constraints + `,"reinvocationPolicy":"Never","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{}"}}]}}`,
			change:  `{"spec":{"failurePolicy":"Ignore"}}`, counted: true},
		{resource: admission("mutatingadmissionpolicybindings"), kind: "MutatingAdmissionPolicyBinding", cluster: true,
			content: `{"spec":{"policyName":"none"}}`, change: `{"spec":{"policyName":"other"}}`, counted: true},
	}
}
