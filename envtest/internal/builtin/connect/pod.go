// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// PodConnections are the subresources of Pods that lead to them, or to the kubelets of their Nodes.
type PodConnections struct {
	Pods, Nodes kind.Getter
	Access      *kind.Access
}

func (c PodConnections) Storages() map[string]rest.Storage {
	return map[string]rest.Storage{
		"log":         logREST{c},
		"exec":        c.stream(func() runtime.Object { return &corev1.PodExecOptions{} }),
		"attach":      c.stream(func() runtime.Object { return &corev1.PodAttachOptions{} }),
		"portforward": c.stream(func() runtime.Object { return &corev1.PodPortForwardOptions{} }),
		"proxy": proxyREST(func() *corev1.PodProxyOptions { return &corev1.PodProxyOptions{} },
			func(o *corev1.PodProxyOptions) string { return o.Path }, c.address),
	}
}

// stream returns the subresource that passes a stream on to the kubelet.
func (c PodConnections) stream(options func() runtime.Object) connectREST {
	return connectREST{options: options, methods: streamMethods, connect: func(ctx context.Context, name string, options runtime.Object, to rest.Responder) (http.Handler, error) {
		if err := mayCreate(ctx, c.Access); err != nil {
			return nil, err
		}
		location, transport, err := c.streamLocation(ctx, name, options)
		if err != nil {
			return nil, err
		}
		return pass(location, transport, true, to), nil
	}}
}

func (c PodConnections) streamLocation(ctx context.Context, name string, options runtime.Object) (*url.URL, http.RoundTripper, error) {
	pod, err := kind.GetOne[*corev1.Pod](ctx, c.Pods(), name)
	if err != nil {
		return nil, nil, err
	}
	path, query := "", url.Values{}
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		query["command"] = o.Command
		path, err = containerPath("exec", pod, o.Container)
		setStreams(query, o.Stdin, o.Stdout, o.Stderr, o.TTY)
	case *corev1.PodAttachOptions:
		path, err = containerPath("attach", pod, o.Container)
		setStreams(query, o.Stdin, o.Stdout, o.Stderr, o.TTY)
	case *corev1.PodPortForwardOptions:
		path = fmt.Sprintf("/portForward/%s/%s", pod.Namespace, pod.Name)
		for _, port := range o.Ports {
			query.Add("port", strconv.Itoa(int(port)))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", name))
	}
	at, err := kubelet(ctx, c.Nodes, pod.Spec.NodeName)
	if err != nil {
		return nil, nil, err
	}
	return at.url(path, query.Encode()), at.transport, nil
}

// setStreams sets the parameters by which a kubelet knows which streams are wanted.
func setStreams(query url.Values, stdin, stdout, stderr, tty bool) {
	for name, wanted := range map[string]bool{
		corev1.ExecStdinParam: stdin, corev1.ExecStdoutParam: stdout, corev1.ExecStderrParam: stderr, corev1.ExecTTYParam: tty,
	} {
		if wanted {
			query.Set(name, "1")
		}
	}
}

// containerPath returns the path of a container at the kubelet. If no container is named, it is the only one.
func containerPath(what string, pod *corev1.Pod, container string) (string, error) {
	names := containerNames(pod)
	switch {
	case container != "" && !slices.Contains(names, container):
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", container, pod.Name))
	case container == "" && len(pod.Spec.Containers) == 1:
		container = pod.Spec.Containers[0].Name
	case container == "":
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
	}
	return fmt.Sprintf("/%s/%s/%s/%s", what, pod.Namespace, pod.Name, container), nil
}

// containerNames returns the names of all containers, in the order in which kube-apiserver tells them.
func containerNames(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// address returns where a Pod is. Id is its name, name:port or scheme:name:port; the port is the first of its containers'
// otherwise.
func (c PodConnections) address(ctx context.Context, id string) (place, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return place{}, apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", id))
	}
	pod, err := kind.GetOne[*corev1.Pod](ctx, c.Pods(), name)
	if err != nil {
		return place{}, err
	}
	for i := range pod.Spec.Containers {
		if ports := pod.Spec.Containers[i].Ports; port == "" && len(ports) > 0 {
			port = strconv.Itoa(int(ports[0].ContainerPort))
		}
	}
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	if !isPublic(net.ParseIP(ip)) {
		return place{}, apierrors.NewBadRequest(errNotAllowed.Error())
	}
	return place{scheme, ip, port, outbound}, nil
}

// logREST serves pods/log.
type logREST struct{ PodConnections }

var _ rest.GetterWithOptions = logREST{}

var _ rest.StorageMetadata = logREST{}

func (logREST) New() runtime.Object { return &corev1.Pod{} }

func (logREST) Destroy() {}

func (logREST) NewGetOptions() (_ runtime.Object, subpath bool, parameter string) {
	return &corev1.PodLogOptions{}, false, ""
}

func (logREST) ProducesMIMETypes(string) []string { return []string{"text/plain"} }

func (logREST) ProducesObject(string) any { return "" }

// Get returns the log of a container as a stream: an empty one of a Pod that has no node yet.
func (r logREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o := kind.MustBe[*corev1.PodLogOptions](options)
	if errs := validateLogOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), name, errs)
	}
	pod, err := kind.GetOne[*corev1.Pod](ctx, r.Pods(), name)
	if err != nil {
		return nil, err
	}
	path, err := containerPath("containerLogs", pod, o.Container)
	if err != nil {
		return nil, err
	}
	log := &genericrest.LocationStreamer{
		ContentType: "text/plain", Flush: o.Follow, RedirectChecker: genericrest.PreventRedirects,
		ResponseChecker: genericrest.NewGenericHttpResponseChecker(corev1.Resource("pods/log"), name),
	}
	if pod.Spec.NodeName == "" {
		return log, nil
	}
	at, err := kubelet(ctx, r.Nodes, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	log.Location, log.Transport = at.url(path, logQuery(o).Encode()), at.transport
	return log, nil
}

func validateLogOptions(o *corev1.PodLogOptions) (errs field.ErrorList) {
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if o.Stream != nil { // without the feature PodLogsQuerySplitStreams
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	return errs
}

// logQuery returns what a kubelet is asked.
func logQuery(o *corev1.PodLogOptions) url.Values {
	query := url.Values{}
	for name, wanted := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if wanted {
			query.Set(name, "true")
		}
	}
	for name, number := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if number != nil {
			query.Set(name, strconv.FormatInt(*number, 10))
		}
	}
	if o.SinceTime != nil {
		query.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	return query
}
