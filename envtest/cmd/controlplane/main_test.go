// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// assets is a folder with both programs.
var assets string

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	_ = os.Unsetenv("KUBEBUILDER_ASSETS") // would come before the folder
	os.Exit(func() int {
		var err error
		if assets, err = build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(assets) }()
		return m.Run()
	}())
}

// build builds both programs into a folder.
func build() (string, error) {
	folder, err := os.MkdirTemp("", "tarn-controlplane-")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return folder, nil
}

// environment is controller-runtime's, on the programs. A failure shows what kube-apiserver said.
func environment(t *testing.T) (env *envtest.Environment, said *gbytes.Buffer) {
	t.Helper()
	said = gbytes.NewBuffer()
	env = &envtest.Environment{BinaryAssetsDirectory: assets}
	env.ControlPlane.GetAPIServer().Err = said
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kube-apiserver said:\n%s", said.Contents())
		}
	})
	return env, said
}

// start starts env until the test ends.
func start(t *testing.T, env *envtest.Environment) *rest.Config {
	t.Helper()
	g := NewWithT(t)
	config, err := env.Start()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(env.Stop()).To(Succeed()) })
	return config
}

// TestEnvironment runs controller-runtime's Environment as a suite does: CRDs, users, a second life.
func TestEnvironment(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env, said := environment(t)
	env.CRDDirectoryPaths = []string{filepath.Join("..", "..", "testdata", "crds")}
	kube := kubernetes.NewForConfigOrDie(start(t, env))
	_, err := kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	jane, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = kubernetes.NewForConfigOrDie(jane.Config()).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring(`User "jane"`)))
	g.Expect(string(said.Contents())).NotTo(ContainSubstring("service-account"), "the flags about tokens have an effect")

	_, err = kube.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	made, err := kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	review, err := kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: made.Status.Token},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(review.Status.User.Username).To(Equal("system:serviceaccount:default:robot"), review.Status.Error)
}

// TestRestart stops both processes, and starts them again on what etcd has kept.
func TestRestart(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env, _ := environment(t)
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: t.TempDir()}
	config, err := env.Start()
	g.Expect(err).NotTo(HaveOccurred())
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = aggregatorclient.NewForConfigOrDie(config).ApiregistrationV1().APIServices().Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.gone.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "gone.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "gone"},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(env.Stop()).To(Succeed())
	kube := kubernetes.NewForConfigOrDie(start(t, env))
	err = kube.CoreV1().RESTClient().Get().AbsPath("/apis/gone.example.com/v1/things").Do(ctx).Error()
	g.Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v: an APIService still leads to another server", err)
	_, err = kube.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

// TestFlagsOfSuites sets what suites set, and looks at what it does.
func TestFlagsOfSuites(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env, said := environment(t)
	folder := t.TempDir()
	policy, events := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	g.Expect(os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"), 0o600)).To(Succeed())
	tokens := filepath.Join(folder, "tokens.csv")
	g.Expect(os.WriteFile(tokens, []byte("secret,joan,1,\"system:masters\"\n"), 0o600)).To(Succeed())
	env.ControlPlane.GetAPIServer().Configure().
		Append("audit-policy-file", policy).Append("audit-log-path", events).
		Append("token-auth-file", tokens).
		Append("runtime-config", "batch/v1=false,resource.k8s.io/v1beta1=true").
		Append("disable-admission-plugins", "StorageObjectInUseProtection").
		Append("feature-gates", "APIResponseCompression=false,JobManagedBy=true").
		Append("etcd-prefix", "/elsewhere").
		Append("max-requests-inflight", "77").
		Append("v", "1")
	config := start(t, env)

	byToken := rest.AnonymousClientConfig(config)
	byToken.BearerToken = "secret"
	kube := kubernetes.NewForConfigOrDie(byToken)
	_, err := kube.BatchV1().Jobs("default").List(ctx, metav1.ListOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	claim, err := kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(claim.Finalizers).To(BeEmpty())
	g.Expect(os.ReadFile(events)).To(ContainSubstring(`"user":{"username":"joan"`))
	g.Expect(string(said.Contents())).To(ContainSubstring("resource.k8s.io/v1beta1 has no effect"))
	g.Expect(string(said.Contents())).To(ContainSubstring("JobManagedBy has no effect"))
}

// TestDeletionAndGoaway sets flags whose effect only a request shows.
func TestDeletionAndGoaway(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	env, said := environment(t)
	env.ControlPlane.GetAPIServer().Configure().
		Append("enable-garbage-collector", "false").Append("delete-collection-workers", "3").Append("goaway-chance", "0.02")
	config := start(t, env)
	config.QPS = -1
	kube := kubernetes.NewForConfigOrDie(config)
	maps := kube.CoreV1().ConfigMaps("default")
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(maps.Delete(ctx, "one", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})).To(Succeed())
	_, err = maps.Get(ctx, "one", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v: it waits for a garbage collector", err)

	anew := 0
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			anew++
		}
	}})
	for range 1500 { // without a GOAWAY among them once in 10^13 runs
		g.Expect(kube.CoreV1().RESTClient().Get().AbsPath("/version").Do(traced).Error()).To(Succeed())
	}
	g.Expect(anew).To(BeNumerically(">", 1), "connections")
	g.Expect(string(said.Contents())).NotTo(ContainSubstring("has no effect"))
}

// TestAggregatorRouting has an APIService led to where its Service's addresses are, and with the flag to where its endpoints
// are. Nobody is there: the condition of the APIService says who was asked.
func TestAggregatorRouting(t *testing.T) {
	const clusterIP, endpoint = "10.0.0.77", "198.51.100.1" // an address of documentation
	for flag, asked := range map[string]string{"false": "https://" + clusterIP + ":443/", "true": "https://" + endpoint + ":8443/"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			g, ctx := NewWithT(t), t.Context()
			env, _ := environment(t)
			env.ControlPlane.GetAPIServer().Configure().Append("enable-aggregator-routing", flag)
			config := start(t, env)
			kube, services := kubernetes.NewForConfigOrDie(config), aggregatorclient.NewForConfigOrDie(config).ApiregistrationV1().APIServices()
			_, err := kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "extension"},
				Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Port: 443}}},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = kube.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: "extension", Labels: map[string]string{discoveryv1.LabelServiceName: "extension"}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{endpoint}}},
				Ports: []discoveryv1.EndpointPort{{Name: new(string), Port: new(int32(8443))}},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = services.Create(ctx, &apiregistrationv1.APIService{
				ObjectMeta: metav1.ObjectMeta{Name: "v1.extension.example.com"},
				Spec: apiregistrationv1.APIServiceSpec{
					Group: "extension.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
					InsecureSkipTLSVerify: true, Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "extension"},
				},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(ctx, func() ([]apiregistrationv1.APIServiceCondition, error) {
				service, err := services.Get(ctx, "v1.extension.example.com", metav1.GetOptions{})
				if err != nil {
					return nil, err
				}
				return service.Status.Conditions, nil
			}).WithTimeout(time.Minute).Should(ContainElement(And(
				HaveField("Reason", "FailedDiscoveryCheck"), HaveField("Message", ContainSubstring(asked)))))
		})
	}
}

// TestRefusals starts kube-apiserver with what the real one refuses, and with what this one does.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"--no-such-flag"}, "Error: unknown flag: --no-such-flag\n"},
		{[]string{"argument"}, `Error: "kube-apiserver" does not take any arguments, got ["argument"]`},
		{nil, "--etcd-servers must be specified"},
		{[]string{"--feature-gates=NoSuchGate=true"}, `"command failed" err="unrecognized feature gate: NoSuchGate"`},
		{[]string{"--authorization-mode=Webhook"}, "--authorization-mode=Webhook is not supported"},
		{[]string{"--oidc-issuer-url=https://example.com"}, "--oidc-issuer-url is not supported"},
	} {
		t.Run(fmt.Sprint(c.args), func(t *testing.T) {
			g := NewWithT(t)
			out, err := exec.CommandContext(t.Context(), filepath.Join(assets, "kube-apiserver"), c.args...).CombinedOutput()
			var exit *exec.ExitError
			g.Expect(errors.As(err, &exit)).To(BeTrue(), "%v", err)
			g.Expect(exit.ExitCode()).To(Equal(1))
			g.Expect(string(out)).To(ContainSubstring(c.said))
		})
	}
}
