// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"errors"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest"
)

var _ = Describe("a controller of an environment", func() {
	BeforeEach(onlyOurs)

	It("runs with the rights of kube-controller-manager, and ends before the server", func(ctx SpecContext) {
		asked, answer := make(chan *rest.Config, 1), make(chan error, 1)
		env := envtest.New(envtest.Options{Controllers: []envtest.Controller{{
			Name: "test-controller",
			Run: func(running context.Context, config *rest.Config) error {
				asked <- config
				<-running.Done()
				_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
				answer <- err
				return running.Err()
			},
		}}})
		Expect(env.Start(ctx)).To(Succeed())
		var config *rest.Config
		Eventually(ctx, asked).Should(Receive(&config))
		Expect(config.UserAgent).To(Equal("test-controller"))
		review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
			Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.UserInfo.Username).To(Equal("system:kube-controller-manager"))
		Expect(review.Status.UserInfo.Groups).To(ContainElement("system:masters"))
		Expect(env.Stop()).To(Succeed())
		Expect(answer).To(Receive(Succeed()), "the server still answers when the controller is told to end")
	}, SpecTimeout(patience))

	DescribeTable("that fails is an error of Stop", func(ctx SpecContext, run func(context.Context) error, want string) {
		ended := make(chan struct{})
		env := envtest.New(envtest.Options{Controllers: []envtest.Controller{{
			Name: "test-controller",
			Run: func(ctx context.Context, _ *rest.Config) error {
				defer close(ended)
				return run(ctx)
			},
		}}})
		Expect(env.Start(ctx)).To(Succeed())
		if want != "test-controller: too late" {
			Eventually(ctx, ended).Should(BeClosed())
		}
		Expect(env.Stop()).To(MatchError(ContainSubstring(want)))
		Expect(ended).To(BeClosed())
	},
		Entry("by itself", func(context.Context) error { return errors.New("broken") }, "test-controller ended by itself: broken", SpecTimeout(patience)),
		Entry("by itself, without an error", func(context.Context) error { return nil }, "test-controller ended by itself, without an error", SpecTimeout(patience)),
		Entry("when it is told to end", func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("too late")
		}, "test-controller: too late", SpecTimeout(patience)),
	)

	It("is refused by Start if it cannot run, which begins nothing", func(ctx SpecContext) {
		folder, run := GinkgoT().TempDir(), func(context.Context, *rest.Config) error { return nil }
		env := envtest.New(envtest.Options{DataDirectory: folder, Controllers: []envtest.Controller{
			{Name: "good", Run: run}, {Run: run}, {Name: "empty"}, {Err: errors.New("no such controller")},
		}})
		Expect(env.Start(ctx)).To(MatchError(And(
			ContainSubstring("envtest.Options.Controllers[1]: it has no Name"),
			ContainSubstring("envtest.Options.Controllers[2]: empty has no Run"),
			ContainSubstring("envtest.Options.Controllers[3]: no such controller"),
			Not(ContainSubstring("Controllers[0]")),
		)))
		Expect(os.ReadDir(folder)).To(BeEmpty())
	}, SpecTimeout(patience))
})
