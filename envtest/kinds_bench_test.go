// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package envtest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	binaries "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tarn-dev/tarn/envtest"
)

// BenchmarkKinds measures creates and updates of samples of each built-in kind, one after the other, on an environment and, where
// KUBEBUILDER_ASSETS names the binaries, on the real kube-apiserver. Use -benchtime 100x: there are 254 addresses for Services.
func BenchmarkKinds(b *testing.B) {
	b.Run("Server=tarn", func(b *testing.B) { benchmarkKinds(b, envtest.StartWith(b, envtest.Options{}).Config()) })
	b.Run("Server=kube-apiserver", func(b *testing.B) {
		if os.Getenv("KUBEBUILDER_ASSETS") == "" {
			b.Skip(`KUBEBUILDER_ASSETS is not set: eval "$(go run ./envtest/cmd/assets)"`)
		}
		server := new(binaries.Environment)
		config, err := server.Start()
		b.Cleanup(func() { must(b, server.Stop()) })
		must(b, err)
		config.QPS = -1
		benchmarkKinds(b, config)
	})
}

func benchmarkKinds(b *testing.B, config *rest.Config) {
	kube, dyn := kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
	for _, s := range samples() {
		if s.name != "" { // there can be one alone
			continue
		}
		for _, verb := range []string{"create", "update"} {
			b.Run(fmt.Sprintf("Kind=%s/Verb=%s", s.resource.GroupResource(), verb), func(b *testing.B) {
				ns, err := kube.CoreV1().Namespaces().Create(b.Context(),
					&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
				must(b, err)
				benchmarkKind(b, s, s.client(dyn, ns.Name), ns.Name, verb == "create")
			})
		}
	}
}

// benchmarkKind measures creates, or else updates of one object, through a client. A new object has the namespace in its labels.
func benchmarkKind(b *testing.B, s sample, objects dynamic.ResourceInterface, namespace string, creates bool) {
	obj, err := s.in(namespace)
	must(b, err)
	name := obj.GetName()
	b.Cleanup(func() { // those of a cluster would weigh on the next benchmark
		err := objects.DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)},
			metav1.ListOptions{LabelSelector: sampleLabel + "=" + namespace})
		if !apierrors.IsMethodNotSupported(err) { // as for namespaces
			must(b, err)
		}
	})
	if !creates {
		_, err := objects.Create(b.Context(), obj, metav1.CreateOptions{})
		must(b, err)
	}
	b.ResetTimer()
	for i := range b.N {
		if creates {
			obj.SetName(fmt.Sprintf("%s-%d", name, i))
			_, err = objects.Create(b.Context(), obj, metav1.CreateOptions{})
		} else {
			change := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":"%d"}}}`, i)
			_, err = objects.Patch(b.Context(), name, types.MergePatchType, change, metav1.PatchOptions{})
		}
		must(b, err)
	}
}
