// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"bytes"
	"context"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/controllers"
	"github.com/tarn-dev/tarn/envtest/faults"
)

// collector is the name of the garbage collector, which its requests have as user agent.
const collector = "garbage-collector-controller"

// follows returns when the collector follows a custom kind.
func follows(ctx context.Context, kind kind, namespace string) {
	GinkgoHelper()
	probe := owned(kind.object(namespace, "probe"), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"})
	Eventually(ctx, gone(ctx, create(ctx, probe))).Should(Succeed())
}

// informers returns how many informers run in the process.
func informers() int {
	stacks := make([]byte, 16<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("informers.(*MapEntry).run("))
}

// own starts an environment for one spec, on which the helpers work then.
func own(options envtest.Options) *envtest.Environment {
	GinkgoHelper()
	sharedEnv, sharedAPI := env, api
	DeferCleanup(func() { env, api = sharedEnv, sharedAPI })
	env = envtest.StartWith(GinkgoTB(), options)
	var err error
	api, err = client.New(env.Config(), client.Options{Scheme: sharedAPI.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return env
}

// These specs are about what kube-controller-manager leaves to chance, and about the environment.
var _ = Describe("Our garbage collector", func() {
	var ns string

	BeforeEach(func(ctx SpecContext) {
		if isReal() {
			Skip("about ours: the controllers are those of " + realVariable)
		}
		ns = newNamespace(ctx).Name
	})

	// late holds back what the collector's watch of Secrets brings.
	late := func() *faults.Hold {
		GinkgoHelper()
		hold, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "secrets", UserAgent: collector})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(hold.End)
		return hold
	}

	It("leaves the dependents of an owner that orphans them, also those that it sees later", func(ctx SpecContext) {
		known(ctx, ns)
		owner, watch := create(ctx, configMap(ns, "owner")), late()
		child := create(ctx, owned(secret(ns, "child"), refTo(owner)))
		Expect(watch.Wait(ctx, 1)).To(Succeed())
		Expect(api.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, gone(ctx, owner)).Should(Succeed())
		Expect(ownersOf(ctx, child)()).To(HaveLen(1))
		watch.End()
		Eventually(ctx, ownersOf(ctx, child)).Should(BeEmpty())
		known(ctx, ns)
		Expect(going(ctx, child)()).To(BeFalse())
	}, SpecTimeout(patience))

	It("does not delete an object that has got another owner, which it does not see yet", func(ctx SpecContext) {
		owner, other := create(ctx, configMap(ns, "owner")), create(ctx, configMap(ns, "other"))
		child := create(ctx, owned(secret(ns, "child"), refTo(owner)))
		known(ctx, ns)
		watch := late()
		change(ctx, child, func() { child.SetOwnerReferences([]metav1.OwnerReference{refTo(owner), refTo(other)}) })
		Expect(watch.Wait(ctx, 1)).To(Succeed())
		refused, err := injector.Inject(faults.Rule{Verb: "delete", Resource: "secrets", Name: "child"}, faults.Delay(0))
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(ctx, refused.Hits).Should(BeNumerically(">=", 1), "it has tried")
		Expect(ownersOf(ctx, child)()).To(HaveLen(2))
		watch.End()
		Eventually(ctx, ownersOf(ctx, child)).Should(HaveExactElements(other.GetUID()))
		Expect(going(ctx, child)()).To(BeFalse())
	}, SpecTimeout(patience))

	It("deletes an object whose other fields it does not see yet", func(ctx SpecContext) {
		owner := create(ctx, configMap(ns, "owner"))
		child := create(ctx, owned(secret(ns, "child"), refTo(owner)))
		known(ctx, ns)
		watch := late()
		change(ctx, child, func() { child.Data = map[string][]byte{"key": []byte("value")} })
		Expect(watch.Wait(ctx, 1)).To(Succeed())
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(ctx, gone(ctx, child)).Should(Succeed())
	}, SpecTimeout(patience))

	It("deletes the dependents of an owner that it has asked for, and that goes before it follows the kind", func(ctx SpecContext) {
		injector := faults.New() // of a collector that has just asked for the kinds, and will not do so in the next seconds
		own(envtest.Options{Controllers: controllers.Named(collector), Faults: injector})
		ns = "default"
		known(ctx, ns)
		crds, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "customresourcedefinitions", UserAgent: collector})
		Expect(err).NotTo(HaveOccurred())
		apiServices, err := injector.Hold(faults.Rule{Verb: "watch", Resource: "apiservices", UserAgent: collector})
		Expect(err).NotTo(HaveOccurred())
		kind := newKind(ctx, apiextensionsv1.NamespaceScoped)
		answers, err := injector.HoldAnswers(faults.Rule{Verb: "get", Resource: "widgets", UserAgent: collector})
		Expect(err).NotTo(HaveOccurred())
		owner := create(ctx, kind.object(ns, "owner"))
		child := create(ctx, owned(secret(ns, "child"), refTo(owner)))
		Expect(answers.Wait(ctx, 1)).To(Succeed(), "it asks for the owner, and is told that it is there")
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(ctx, gone(ctx, owner)).Should(Succeed())
		crds.End()
		apiServices.End()
		follows(ctx, kind, ns)
		answers.End()
		Eventually(ctx, gone(ctx, child)).Should(Succeed())
	}, SpecTimeout(patience))

	It("keeps nothing of kinds that are gone", func(ctx SpecContext) {
		var crds []client.Object
		cycle := func() {
			kind := newKind(ctx, apiextensionsv1.NamespaceScoped)
			follows(ctx, kind, ns)
			owner := create(ctx, kind.object(ns, "owner"))
			child := create(ctx, owned(secret(ns, "child"), refTo(owner)))
			front := create(ctx, configMap(ns, "front"))
			inFront := owned(kind.object(ns, "in-front"), blocking(front))
			inFront.SetFinalizers([]string{hold})
			create(ctx, inFront)
			other := newNamespace(ctx)
			remains := kind.object(other.Name, "remains")
			remains.SetFinalizers([]string{hold})
			create(ctx, remains)
			Expect(api.Delete(ctx, other)).To(Succeed())
			Eventually(ctx, going(ctx, remains)).Should(BeTrue())
			letGo(ctx, remains)
			Expect(api.Delete(ctx, front, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
			Expect(api.Delete(ctx, kind.crd.DeepCopy())).To(Succeed())
			Eventually(ctx, going(ctx, inFront)).Should(BeTrue())
			letGo(ctx, inFront)
			crds = append(crds, kind.crd) // the server takes seconds to see that the last object of a CRD is gone
			for _, obj := range []client.Object{child, front, other} {
				Eventually(ctx, gone(ctx, obj)).Should(Succeed())
			}
		}
		settle := func() {
			for _, crd := range crds {
				Eventually(ctx, gone(ctx, crd)).Should(Succeed())
			}
		}
		cycle() // until it follows all kinds
		settle()
		before := informers()
		for range 10 {
			cycle()
		}
		settle()
		Eventually(ctx, informers).Should(BeNumerically("<=", before), "of each kind there would be one here and one in the namespace controller")
	}, SpecTimeout(patience))

	It("keeps the dependents of an owner that is served in another version by now", func(ctx SpecContext) {
		kind := newKind(ctx, apiextensionsv1.NamespaceScoped)
		owner := create(ctx, kind.object(ns, "owner"))
		child := create(ctx, owned(configMap(ns, "child"), refTo(owner)))
		known(ctx, ns)
		next := kind.crd.DeepCopy()
		next.Spec.Versions = append(next.Spec.Versions, *next.Spec.Versions[0].DeepCopy())
		next.Spec.Versions[0].Served, next.Spec.Versions[0].Storage, next.Spec.Versions[1].Name = false, false, "v2"
		Expect(env.InstallCRDs(ctx, next)).To(Succeed())
		dependent := kind.object(ns, "dependent")
		dependent.SetAPIVersion(next.Spec.Group + "/v2")
		dependent.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"}})
		Eventually(ctx, gone(ctx, create(ctx, dependent))).Should(Succeed(), "the new version is followed")
		known(ctx, ns)
		Expect(going(ctx, child)()).To(BeFalse())
		owner.SetAPIVersion(next.Spec.Group + "/v2")
		Expect(gone(ctx, owner)()).NotTo(Succeed())
	}, SpecTimeout(patience))

	It("does what was left to do when it begins, and ends with its context", func(ctx SpecContext) {
		bare := own(envtest.Options{})
		front, orphans, other := create(ctx, configMap("default", "front")), create(ctx, configMap("default", "orphans")), create(ctx, configMap("default", "other"))
		inFront := create(ctx, owned(secret("default", "in-front"), blocking(front)))
		orphan := create(ctx, owned(secret("default", "orphan"), refTo(orphans)))
		dangling := create(ctx, owned(secret("default", "dangling"), refTo(other)))
		Expect(api.Delete(ctx, front, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Expect(api.Delete(ctx, orphans, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Expect(api.Delete(ctx, other)).To(Succeed())

		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- controllers.Named(collector)[0].Run(running, bare.Config()) }()
		for _, obj := range []client.Object{inFront, front, orphans, dangling} {
			Eventually(ctx, gone(ctx, obj)).Should(Succeed())
		}
		Expect(ownersOf(ctx, orphan)()).To(BeEmpty())
		cancel()
		Eventually(ctx, ended).Should(Receive(Or(Succeed(), MatchError(context.Canceled))))
	}, SpecTimeout(patience))

	It("keeps what comes back with its owner", func(ctx SpecContext) {
		own := own(envtest.Options{Controllers: controllers.Named("*")})
		owner := create(ctx, configMap("default", "owner"))
		child := create(ctx, owned(secret("default", "child"), refTo(owner)))
		state, err := own.Snapshot(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(ctx, gone(ctx, child)).Should(Succeed())
		Expect(own.Restore(ctx, state)).To(Succeed())
		known(ctx, "default")
		Expect(going(ctx, child)()).To(BeFalse())
		Expect(own.Reset(ctx)).To(Succeed())
		list := &corev1.SecretList{}
		Expect(api.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(BeEmpty())
	}, SpecTimeout(patience))
})
