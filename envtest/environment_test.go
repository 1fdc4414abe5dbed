// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarn-dev/tarn/envtest"
)

var _ = Describe("an environment", func() {
	BeforeEach(onlyOurs)

	It("runs once, and answers before and after with an error", func(ctx SpecContext) {
		env := envtest.New(envtest.Options{})
		Expect(env.Stop()).To(Succeed(), "nothing to stop")
		Expect(env.Stop()).To(Succeed())
		Expect(env.Start(ctx)).To(MatchError(envtest.ErrStartedBefore))

		env = envtest.New(envtest.Options{})
		Expect(env.Config()).To(BeNil())
		_, err := env.KubeConfig()
		Expect(err).To(MatchError(envtest.ErrNotRunning))
		Expect(env.Start(ctx)).To(Succeed())
		Expect(env.Start(ctx)).To(MatchError(envtest.ErrStartedBefore))
		Expect(env.Stop()).To(Succeed())
		Expect(env.Stop()).To(Succeed())
		Expect(env.Config()).To(BeNil())
		_, err = env.AddUser("jane")
		Expect(err).To(MatchError(envtest.ErrNotRunning))
		Expect(env.InstallCRDs(ctx)).To(MatchError(envtest.ErrNotRunning))
	}, SpecTimeout(patience))

	It("gives up starting when it is stopped", func(ctx SpecContext) {
		folder, waits := GinkgoT().TempDir(), make(chan struct{})
		env := envtest.New(envtest.Options{
			DataDirectory:    folder,
			CRDs:             []*apiextensionsv1.CustomResourceDefinition{widgetCRD("never.example.com")},
			StorageDecorator: neverEstablished(sync.OnceFunc(func() { close(waits) })),
		})
		started := make(chan error, 1)
		go func() { started <- env.Start(context.WithoutCancel(ctx)) }()
		Eventually(ctx, waits).Should(BeClosed())
		Expect(env.Config()).To(BeNil(), "it does not run yet")
		Expect(env.Stop()).To(Succeed())
		Eventually(ctx, started).Should(Receive(MatchError(envtest.ErrStopped)))
		Expect(os.ReadDir(folder)).To(BeEmpty())
		Expect(env.Stop()).To(Succeed())
		Expect(env.Start(ctx)).To(MatchError(envtest.ErrStartedBefore))
	}, SpecTimeout(patience))

	It("runs beside others, and shares nothing with them", func(ctx SpecContext) {
		var wg sync.WaitGroup
		envs := make([]*envtest.Environment, 3)
		for i := range envs {
			wg.Go(func() {
				defer GinkgoRecover()
				envs[i] = envtest.StartWith(GinkgoTB(), envtest.Options{})
				kube := kubernetes.NewForConfigOrDie(envs[i].Config())
				_, err := kube.CoreV1().ConfigMaps("default").Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred(), "each has its own ConfigMap one")
			})
		}
		wg.Wait()
		stranger := envs[0].Config()
		stranger.Host, stranger.CAData = envs[1].Config().Host, envs[1].Config().CAData
		_, err := kubernetes.NewForConfigOrDie(stranger).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
		stranger.BearerToken = ""
		pair, err := tls.X509KeyPair(stranger.CertData, stranger.KeyData)
		Expect(err).NotTo(HaveOccurred())
		stranger.CertData, stranger.KeyData = nil, nil
		insist, err := rest.TLSConfigFor(stranger)
		Expect(err).NotTo(HaveOccurred())
		// Clients do not show a certificate to a server that says that it trusts another authority.
		insist.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		stranger.TLSClientConfig = rest.TLSClientConfig{}
		stranger.Transport = &http.Transport{TLSClientConfig: insist}
		_, err = kubernetes.NewForConfigOrDie(stranger).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("gives each caller a configuration of its own", func(ctx SpecContext) {
		config := target.env.Config()
		Expect(config.QPS).To(BeNumerically("<", 0))
		config.BearerToken = "spoiled"
		Expect(target.env.Config().BearerToken).NotTo(Equal("spoiled"))
	})

	It("writes a kubeconfig that needs no other file", func(ctx SpecContext) {
		data, err := target.env.KubeConfig()
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(data)
		Expect(err).NotTo(HaveOccurred())
		_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))
})

// defaultDecorator is what environments of this run have whose options name none.
func defaultDecorator() envtest.StorageDecorator {
	decorator, err := envtest.DecoratorNamed(os.Getenv("TARN_WATCH_CACHE"))
	if err != nil {
		panic(err) // no environment starts with it
	}
	return decorator
}

// failingFor is the default decorator, except for one resource.
func failingFor(name string) envtest.StorageDecorator {
	return decorated(defaultDecorator(), func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
		if m.resource.Resource == name {
			return nil, nil, errors.New("no store for " + name)
		}
		return m.make(m.keyFunc)
	})
}

// neverEstablished is the default decorator, except that no definition can be established; tried is called when one is to.
func neverEstablished(tried func()) envtest.StorageDecorator {
	return decorated(defaultDecorator(), func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := m.make(m.keyFunc)
		if m.resource.Resource == "customresourcedefinitions" {
			store = withoutUpdates{store, tried}
		}
		return store, destroy, err
	})
}

// withoutUpdates is a store that refuses updates.
type withoutUpdates struct {
	storage.Interface
	tried func()
}

// GuaranteedUpdate implements storage.Interface.
func (s withoutUpdates) GuaranteedUpdate(
	context.Context, string, runtime.Object, bool, *storage.Preconditions, storage.UpdateFunc, runtime.Object,
) error {
	s.tried()
	return errors.New("updates are refused")
}

// counting is the default decorator, and counts stores.
func counting(made, destroyed *atomic.Int32) envtest.StorageDecorator {
	return decorated(defaultDecorator(), func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := m.make(m.keyFunc)
		if err != nil {
			return nil, nil, err
		}
		made.Add(1)
		return store, sync.OnceFunc(func() {
			destroy()
			destroyed.Add(1)
		}), nil
	})
}

var _ = Describe("Options", func() {
	BeforeEach(onlyOurs)

	It("refuse what cannot work, naming the field", func(ctx SpecContext) {
		folder := GinkgoT().TempDir()
		broken, file := filepath.Join(folder, "broken.yaml"), filepath.Join(folder, "file")
		manifest := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspek: {}\n"
		Expect(os.WriteFile(broken, []byte(manifest), 0o600)).To(Succeed())
		Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
		for message, opts := range map[string]envtest.Options{
			"CRDs[1]":              {CRDs: []*apiextensionsv1.CustomResourceDefinition{widgetCRD("a.example.com"), nil}},
			"CRDDirectoryPaths[0]": {CRDDirectoryPaths: []string{filepath.Join(folder, "missing")}},
			"broken.yaml":          {CRDDirectoryPaths: []string{folder}},
			"DataDirectory":        {DataDirectory: file},
			"StopGracePeriod":      {StopGracePeriod: -time.Second},
		} {
			Expect(envtest.New(opts).Start(ctx)).To(MatchError(ContainSubstring(message)))
		}
	}, SpecTimeout(patience))

	It("refuse a path without CRDs, and say what was looked at", func(ctx SpecContext) {
		config := filepath.Join(GinkgoT().TempDir(), "crd")
		bases, other := filepath.Join(config, "bases"), filepath.Join(config, "patches")
		Expect(os.MkdirAll(bases, 0o700)).To(Succeed())
		Expect(os.Mkdir(other, 0o700)).To(Succeed())
		manifest, err := os.ReadFile(widgetManifest)
		Expect(err).NotTo(HaveOccurred())
		kustomization := filepath.Join(config, "kustomization.yaml")
		for file, content := range map[string][]byte{
			filepath.Join(bases, "widgets.yaml"): manifest,
			kustomization:                        []byte("resources:\n- bases/widgets.yaml\n"),
			filepath.Join(config, "README.md"):   manifest,
			filepath.Join(other, "patch.yaml"):   []byte("kind: Patch\n"),
		} {
			Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
		}
		for path, looked := range map[string]string{
			config:               "the files kustomization.yaml have none, and folders below are not entered: name " + bases,
			other:                "the files patch.yaml have none",
			kustomization:        "the file " + kustomization + " has none",
			filepath.Dir(config): "no file that ends in .yaml, .yml, .json, and folders below are not entered: there are crd",
		} {
			err := envtest.New(envtest.Options{CRDDirectoryPaths: []string{bases, path}}).Start(ctx)
			Expect(err).To(MatchError(And(ContainSubstring("CRDDirectoryPaths[1]"), ContainSubstring(path), ContainSubstring(looked))))
		}
	}, SpecTimeout(patience))

	It("install CRDs from objects, folders and files", func(ctx SpecContext) {
		env := envtest.StartWith(GinkgoTB(), envtest.Options{
			CRDs:              []*apiextensionsv1.CustomResourceDefinition{widgetCRD("object.example.com")},
			CRDDirectoryPaths: []string{"testdata/crds", widgetManifest},
		})
		kube := kubernetes.NewForConfigOrDie(env.Config())
		for _, group := range []string{"object.example.com", "tarn.example.com"} {
			_, err := kube.Discovery().ServerResourcesForGroupVersion(group + "/v1")
			Expect(err).NotTo(HaveOccurred())
		}
	}, SpecTimeout(patience))

	It("install CRDs with fields that nobody knows, and pass over patches of them", func(ctx SpecContext) {
		folder := GinkgoT().TempDir()
		manifest, err := os.ReadFile(widgetManifest)
		Expect(err).NotTo(HaveOccurred())
		first, _, _ := strings.Cut(string(manifest), "\n---\n")
		// Operator frameworks leave notes for their tools in schemas, and old generators fields of v1beta1.
		noted := strings.NewReplacer("spec:\n  group:", "spec:\n  version: v1\n  group:", "      openAPIV3Schema:\n",
			"      openAPIV3Schema:\n        x-descriptors: [\"urn:alm:descriptor:com.tectonic.ui:text\"]\n").Replace(first)
		Expect(noted).To(And(ContainSubstring("x-descriptors"), ContainSubstring("version: v1\n")))
		Expect(os.WriteFile(filepath.Join(folder, "noted.yaml"), []byte(noted), 0o600)).To(Succeed())
		patch := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
			"metadata:\n  name: widgets.tarn.example.com\nspec:\n  conversion:\n    strategy: Webhook\n"
		Expect(os.WriteFile(filepath.Join(folder, "patch.yaml"), []byte(patch), 0o600)).To(Succeed())
		env := envtest.StartWith(GinkgoTB(), envtest.Options{CRDDirectoryPaths: []string{folder}})
		_, err = kubernetes.NewForConfigOrDie(env.Config()).Discovery().ServerResourcesForGroupVersion("tarn.example.com/v1")
		Expect(err).NotTo(HaveOccurred())

		err = envtest.New(envtest.Options{CRDDirectoryPaths: []string{filepath.Join(folder, "patch.yaml")}}).Start(ctx)
		Expect(err).To(MatchError(ContainSubstring("the file " + filepath.Join(folder, "patch.yaml") + " has none")))
	}, SpecTimeout(patience))

	It("choose the storage decorator by resource", func(ctx SpecContext) {
		var mu sync.Mutex
		asked := map[schema.GroupResource]bool{}
		env := envtest.StartWith(GinkgoTB(), envtest.Options{
			CRDs: []*apiextensionsv1.CustomResourceDefinition{widgetCRD("object.example.com")},
			StorageDecorator: func(resource schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
				mu.Lock()
				defer mu.Unlock()
				asked[resource] = true
				return envtest.Undecorated(resource, store)
			},
		})
		kube := kubernetes.NewForConfigOrDie(env.Config())
		w, err := kube.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		_, err = kube.CoreV1().ConfigMaps("default").Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(nameOf(next(ctx, w))).To(Equal("one"))
		// A resource's store is made when it is first asked for.
		_, err = kube.CoreV1().RESTClient().Get().AbsPath("/apis/object.example.com/v1/widgets").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		mu.Lock()
		defer mu.Unlock()
		Expect(asked).To(HaveKey(schema.GroupResource{Resource: "pods"}))
		Expect(asked).To(HaveKey(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}))
		Expect(asked).To(HaveKey(schema.GroupResource{Group: "object.example.com", Resource: "widgets"}))
	}, SpecTimeout(patience))

	It("let a request end when there is a grace period, and cut it off when there is none", func(ctx SpecContext) {
		for _, grace := range []time.Duration{patience, 0} {
			env := envtest.New(envtest.Options{StopGracePeriod: grace})
			Expect(env.Start(ctx)).To(Succeed())
			config, idle := env.Config(), idleConnection(env.Config())
			body, end := io.Pipe()
			handled, answered := make(chan struct{}), make(chan error, 1)
			go func() { answered <- postConfigMap(ctx, config, body, func() { close(handled) }) }()
			_, err := io.WriteString(end, `{"apiVersion":"v1","kind":"ConfigMap",`) // may still be on its way
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, handled).Should(BeClosed())
			stopped := make(chan error, 1)
			go func() { stopped <- env.Stop() }()
			if grace == 0 {
				Expect(<-answered).To(HaveOccurred())
				Expect(end.Close()).To(Succeed())
			} else {
				_, err = idle.Read(make([]byte, 1))
				Expect(err).To(MatchError(io.EOF), "idle connections are closed when the grace period begins")
				_, err = io.WriteString(end, `"metadata":{"name":"one"}}`)
				Expect(err).NotTo(HaveOccurred())
				Expect(stopped).NotTo(Receive(), "the request has not ended")
				Expect(end.Close()).To(Succeed())
				Expect(<-answered).NotTo(HaveOccurred())
			}
			Expect(<-stopped).To(Succeed())
			Expect(idle.Close()).To(Succeed())
		}
	}, SpecTimeout(patience))
})

// idleConnection returns a connection to the server on which a request was answered and none follows.
func idleConnection(config *rest.Config) net.Conn {
	GinkgoHelper()
	tlsConfig, err := rest.TLSConfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	conn, err := tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), tlsConfig) // offers HTTP/1.1 alone
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequest(http.MethodGet, config.Host+"/livez", nil)
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Authorization", "Bearer "+config.BearerToken)
	Expect(req.Write(conn)).To(Succeed())
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	Expect(err).NotTo(HaveOccurred())
	Expect(io.ReadAll(resp.Body)).To(BeEquivalentTo("ok"))
	return conn
}

// postConfigMap creates a ConfigMap from a body that may come slowly. It calls handled when the handler wants the body.
func postConfigMap(ctx context.Context, config *rest.Config, body io.Reader, handled func()) error {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: handled})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+"/api/v1/namespaces/default/configmaps", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue") // Go's servers send it when the handler first reads
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return errors.New(resp.Status)
	}
	return nil
}
