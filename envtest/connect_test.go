// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// kubeletOf runs a kubelet that answers with what it was asked for, and echoes what comes over a connection that was upgraded. Its
// Node has the name that is returned.
func kubeletOf(ctx context.Context) (node string) {
	GinkgoHelper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = fmt.Fprint(w, r.Method, " ", r.URL)
			return
		}
		connection, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = connection.Close() }()
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n%s\n", r.URL)
		line, _ := buffered.ReadString('\n')
		_, _ = fmt.Fprint(connection, line)
	}))
	DeferCleanup(server.Close)
	at, err := url.Parse(server.URL)
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.Atoi(at.Port())
	Expect(err).NotTo(HaveOccurred())
	return nodeOf(ctx, corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: at.Hostname()}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	})
}

// nodeOf creates a Node with a status.
func nodeOf(ctx context.Context, status corev1.NodeStatus) string {
	GinkgoHelper()
	nodes := target.kube.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}, Status: status}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(nodes.Delete(ctx, node.Name, metav1.DeleteOptions{})).To(Succeed()) })
	return node.Name
}

var _ = Describe("a subresource that needs a kubelet", func() {
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	request := func(pod *corev1.Pod, subresource string) *rest.Request {
		return target.kube.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource(subresource)
	}

	It("answers with an empty log for a Pod without a node", func(ctx SpecContext) {
		pods, p := createPod(ctx, func(*corev1.Pod) {})
		Expect(pods.GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx)).To(BeEmpty())
	})

	It("refuses a log that cannot be", func(ctx SpecContext) {
		pods, p := createPod(ctx, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "two", Image: "i"})
			p.Spec.InitContainers = []corev1.Container{{Name: "zero", Image: "i"}}
		})
		for message, o := range map[string]corev1.PodLogOptions{
			"a container name must be specified for pod one, choose one of: [zero ": {},
			"container three is not valid for pod one":                              {Container: "three"},
			"tailLines: Invalid value: -1: must be greater than or equal to 0":      {Container: "two", TailLines: ptr.To[int64](-1)},
			"limitBytes: Invalid value: 0: must be greater than 0":                  {Container: "two", LimitBytes: ptr.To[int64](0)},
			"stream: Forbidden: may not be specified":                               {Container: "two", Stream: ptr.To(corev1.LogStreamAll)},
			"at most one of `sinceTime` or `sinceSeconds` may be specified":         {Container: "two", SinceSeconds: ptr.To[int64](1), SinceTime: ptr.To(metav1.Now())},
		} {
			Expect(pods.GetLogs(p.Name, &o).Do(ctx).Error()).To(MatchError(ContainSubstring(message)))
		}
		Expect(pods.GetLogs("absent", &corev1.PodLogOptions{}).Do(ctx).Error()).To(MatchError(`pods "absent" not found`))
	})

	It("says that there is no node, or that nobody knows where", func(ctx SpecContext) {
		pods, p := createPod(ctx, on("absent"))
		// The server calls what is not found by the resource of the request.
		Expect(pods.GetLogs(p.Name, &corev1.PodLogOptions{}).Do(ctx).Error()).To(MatchError(`pods "absent" not found`))
		Expect(request(p, "exec").Do(ctx).Error()).To(MatchError(`pods "absent" not found`))

		pods, p = createPod(ctx, on(nodeOf(ctx, corev1.NodeStatus{})))
		Expect(pods.GetLogs(p.Name, &corev1.PodLogOptions{}).Do(ctx).Error()).To(MatchError(ContainSubstring("no preferred addresses found; known addresses: []")))
	})

	It("asks the kubelet for a log", func(ctx SpecContext) {
		pods, p := createPod(ctx, on(kubeletOf(ctx)))
		log, err := pods.GetLogs(p.Name, &corev1.PodLogOptions{Timestamps: true, TailLines: ptr.To[int64](3)}).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(log)).To(Equal("GET /containerLogs/" + p.Namespace + "/one/" + p.Spec.Containers[0].Name + "?tailLines=3&timestamps=true"))
	})

	DescribeTable("refuses a stream from a Pod without a node", func(ctx SpecContext, subresource string) {
		_, p := createPod(ctx, func(*corev1.Pod) {})
		err := request(p, subresource).Do(ctx).Error()
		Expect(apierrors.IsBadRequest(err)).To(BeTrue())
		Expect(err).To(MatchError("pod one does not have a host assigned"))
	}, Entry(nil, "exec"), Entry(nil, "attach"), Entry(nil, "portforward"))

	It("passes a stream on to the kubelet", func(ctx SpecContext) {
		_, p := createPod(ctx, on(kubeletOf(ctx)))
		config := rest.CopyConfig(target.config)
		config.NextProtos = []string{"http/1.1"}
		transport, err := rest.TransportFor(config)
		Expect(err).NotTo(HaveOccurred())
		where := request(p, "exec").Param("stdout", "true").Param("command", "ls").Param("command", "-l").URL().String()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, where, nil)
		Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "SPDY/3.1")
		response, err := transport.RoundTrip(r)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		Expect(response.StatusCode).To(Equal(http.StatusSwitchingProtocols))
		lines := bufio.NewReader(response.Body)
		Expect(lines.ReadString('\n')).To(Equal("/exec/" + p.Namespace + "/one/" + p.Spec.Containers[0].Name + "?command=ls&command=-l&output=1\n"))
		_, err = io.WriteString(response.Body.(io.Writer), "echo\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(lines.ReadString('\n')).To(Equal("echo\n"))
	})

	It("lets nobody begin a stream by GET who may not create one", func(ctx SpecContext) {
		_, p := createPod(ctx, func(*corev1.Pod) {})
		roles := target.kube.RbacV1()
		role := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "looks"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get"}}},
		}
		_, err := roles.Roles(p.Namespace).Create(ctx, role, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = roles.RoleBindings(p.Namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "looks"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "looks"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "looker"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		exec := func() error {
			return impersonate("looker").CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("exec").Do(ctx).Error()
		}
		Eventually(exec).Should(MatchError(ContainSubstring(`pods "one" is forbidden`)))
		role.Rules[0].Verbs = []string{"get", "create"}
		_, err = roles.Roles(p.Namespace).Update(ctx, role, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(exec).Should(MatchError("pod one does not have a host assigned"))
	})
})

var _ = Describe("a proxy", func() {
	get := func(ctx context.Context, namespace, resource, name, path string) error {
		r := target.kube.CoreV1().RESTClient().Get().Resource(resource).Name(name).SubResource("proxy").Suffix(path)
		if namespace != "" {
			r = r.Namespace(namespace)
		}
		return r.Do(ctx).Error()
	}

	It("leads to no Pod that has no address, and not to the machine of the API server", func(ctx SpecContext) {
		pods, p := createPod(ctx, func(*corev1.Pod) {})
		Expect(get(ctx, p.Namespace, "pods", "one", "x")).To(MatchError("address not allowed"))
		p.Status.PodIPs = []corev1.PodIP{{IP: "127.0.0.1"}}
		_, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(get(ctx, p.Namespace, "pods", "one:80", "x")).To(MatchError("address not allowed"))
		Expect(get(ctx, p.Namespace, "pods", "absent", "x")).To(MatchError(`pods "absent" not found`))
		Expect(get(ctx, "", "nodes", kubeletOf(ctx), "pods")).To(MatchError("address not allowed"))
		Expect(get(ctx, "", "nodes", "absent", "pods")).To(MatchError(`nodes "absent" not found`))
	})

	It("says that a Service has no endpoints", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(get(ctx, namespace, "services", "absent", "x")).To(MatchError(`services "absent" not found`))
		_, err := target.kube.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		//lint:ignore SA1019 the proxy reads these
		endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		_, err = target.kube.CoreV1().Endpoints(namespace).Create(ctx, endpoints, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		err = get(ctx, namespace, "services", "web", "x")
		Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue())
		Expect(err).To(MatchError(`no endpoints available for service "web"`))
		Expect(get(ctx, namespace, "services", "web:81", "x")).To(MatchError(`no service port 81 found for service "web"`))
		//lint:ignore SA1019 the proxy reads these
		endpoints.Subsets = []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Name: "http", Port: 80}},
		}}
		_, err = target.kube.CoreV1().Endpoints(namespace).Update(ctx, endpoints, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(get(ctx, namespace, "services", "web:80", "x")).To(MatchError(`no endpoints available for service "web:80"`), "the address is of no Pod")
	})
})
