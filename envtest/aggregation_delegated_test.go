// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Not with the race detector: the listener of k8s.io/apiserver v0.37.2 looks at its certificates while its configuration is
// still written (DynamicServingCertificateController), in the extension server that this test runs.

//go:build !race

package envtest_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/internal/openapi"
)

// whoAmI is the storage of a resource whose objects say who asked for them.
type whoAmI struct{ rest.TableConvertor }

var (
	_ rest.Getter               = whoAmI{}
	_ rest.Scoper               = whoAmI{}
	_ rest.SingularNameProvider = whoAmI{}
)

func (whoAmI) New() runtime.Object     { return &corev1.ConfigMap{} }
func (whoAmI) Destroy()                {}
func (whoAmI) NamespaceScoped() bool   { return true }
func (whoAmI) GetSingularName() string { return "me" }

func (whoAmI) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	user, _ := genericapirequest.UserFrom(ctx)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: genericapirequest.NamespaceValue(ctx)},
		Data:       map[string]string{"user": user.GetName()},
	}, nil
}

// TestAnExtensionServerDelegates runs an API server as people write them with k8s.io/apiserver: it asks the server in front
// who somebody is, and what they may do, and is found by Options.ServiceResolver.
func TestAnExtensionServerDelegates(t *testing.T) {
	if os.Getenv(oracleVariable) != "" {
		t.Skip("about the environment: there is none with " + oracleVariable)
	}
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	address := &url.URL{Scheme: "https", Host: listener.Addr().String()}
	env := envtest.StartWith(t, envtest.Options{ServiceResolver: func(namespace, name string, _ int32) (*url.URL, error) {
		g.Expect(namespace + "/" + name).To(Equal("default/extension"))
		return address, nil
	}})
	gv := schema.GroupVersion{Group: "delegated.example.com", Version: "v1"}
	runExtension(t, env, gv, listener)

	// The Service must be there, and one with addresses must have endpoints.
	_, err = kubernetes.NewForConfigOrDie(env.Config()).CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "extension"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "nowhere.invalid"},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	client := aggregatorclient.NewForConfigOrDie(env.Config()).ApiregistrationV1().APIServices()
	_, err = client.Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 100, VersionPriority: 10, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "extension"},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	me := func(config *clientrest.Config) (string, error) {
		got, err := dynamic.NewForConfigOrDie(config).Resource(gv.WithResource("me")).Namespace("default").Get(t.Context(), "me", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		g.Expect(got.GetAPIVersion()).To(Equal(gv.String()))
		return got.Object["data"].(map[string]any)["user"].(string), nil
	}

	// In front: the server says who asks, with its certificate.
	var admin string
	g.Eventually(func() (err error) { admin, err = me(env.Config()); return err }).WithContext(t.Context()).WithTimeout(patience).WithPolling(fast).Should(Succeed())
	g.Expect(admin).To(Equal("kubernetes-admin"))
	jane, err := env.AddUser("jane")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = me(jane)
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	permitIn(t, env, gv) // the server learns of roles by a watch
	g.Eventually(func() (string, error) { return me(jane) }).WithContext(t.Context()).WithTimeout(patience).WithPolling(fast).Should(Equal("jane"))

	// Directly: the extension asks the server who a token is of, and what they may do.
	direct := clientrest.CopyConfig(jane)
	direct.Host, direct.TLSClientConfig = address.String(), clientrest.TLSClientConfig{Insecure: true}
	g.Expect(me(direct)).To(Equal("jane"))
	joan, err := env.AddUser("joan")
	g.Expect(err).NotTo(HaveOccurred())
	direct.BearerToken = joan.BearerToken
	_, err = me(direct)
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	direct.BearerToken = "nobody's"
	_, err = me(direct)
	g.Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
}

// runExtension runs the server until the end of the test.
func runExtension(t *testing.T, env *envtest.Environment, gv schema.GroupVersion, listener net.Listener) {
	t.Helper()
	g := NewWithT(t)
	kubeconfig, err := env.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(file, kubeconfig, 0o600)).To(Succeed())

	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(gv, &corev1.ConfigMap{})
	metav1.AddToGroupVersion(scheme, gv)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	namer := genericopenapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)

	serving := genericoptions.NewSecureServingOptions().WithLoopback()
	serving.Listener, serving.ServerCert.CertDirectory, serving.ServerCert.PairName = listener, t.TempDir(), "extension"
	g.Expect(serving.MaybeDefaultWithSelfSignedCerts("extension.default.svc", nil, []net.IP{net.IPv4(127, 0, 0, 1)})).To(Succeed())
	g.Expect(serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig)).To(Succeed())
	authentication, authorization := genericoptions.NewDelegatingAuthenticationOptions(), genericoptions.NewDelegatingAuthorizationOptions()
	authentication.RemoteKubeConfigFile, authorization.RemoteKubeConfigFile = file, file
	g.Expect(authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig)).To(Succeed())
	g.Expect(authorization.ApplyTo(&config.Authorization)).To(Succeed())

	extension, err := config.Complete().New("extension", genericapiserver.NewEmptyDelegate())
	g.Expect(err).NotTo(HaveOccurred())
	group := genericapiserver.NewDefaultAPIGroupInfo(gv.Group, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap[gv.Version] = map[string]rest.Storage{
		"me": whoAmI{rest.NewDefaultTableConvertor(gv.WithResource("me").GroupResource())},
	}
	g.Expect(extension.InstallAPIGroup(&group)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- extension.PrepareRun().RunWithContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// permitIn lets jane ask who she is.
func permitIn(t *testing.T, env *envtest.Environment, gv schema.GroupVersion) {
	t.Helper()
	g := NewWithT(t)
	rbac := kubernetes.NewForConfigOrDie(env.Config()).RbacV1()
	_, err := rbac.Roles("default").Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "me"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{gv.Group}, Resources: []string{"me"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = rbac.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "me"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "me"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}
