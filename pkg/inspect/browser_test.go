// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

// executable returns a browser of this machine. Without one the spec is skipped, unless
// TARN_REQUIRE_BROWSER is true.
func executable() string {
	GinkgoHelper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("TARN_REQUIRE_BROWSER") == "true" {
		Fail("there is no chromium on this machine, and TARN_REQUIRE_BROWSER is true")
	}
	Skip("there is no chromium on this machine, so nobody has looked at the page: install it, as with apt-get install chromium")
	return ""
}

// browser is a tab of a headless browser.
type browser struct {
	context.Context

	mu         sync.Mutex // guards what follows
	complaints []string   // of the console: errors, and what the policy of the page has refused
	asked      []string   // the addresses of all requests
}

// openBrowser starts a browser, which ends with the spec.
func openBrowser() *browser {
	GinkgoHelper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(executable()),
		chromedp.NoSandbox, // it needs rights that a container may not have, and the page is ours
		chromedp.UserDataDir(GinkgoT().TempDir()),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("force-device-scale-factor", "1"),
	)
	process, end := chromedp.NewExecAllocator(context.Background(), options...)
	b := &browser{}
	tab, closeTab := chromedp.NewContext(process, chromedp.WithListener(b.listen))
	b.Context = tab
	DeferCleanup(func() {
		Expect(chromedp.Cancel(tab)).To(Succeed()) // waits until the process has ended
		closeTab()
		end()
	})
	b.run()
	return b
}

// listen notes what the browser complains of.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		b.complaints = append(b.complaints, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("console.%s", e.Type))
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

func (b *browser) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints)
}

func (b *browser) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

func (b *browser) run(steps ...chromedp.Action[chromedp.Void]) {
	GinkgoHelper()
	Expect(chromedp.Do(b, steps...)).To(Succeed())
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](b *browser, expression string) T {
	GinkgoHelper()
	value, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	Expect(err).NotTo(HaveOccurred())
	return value
}

// text returns the text of an element.
func (b *browser) text(selector string) string {
	GinkgoHelper()
	return evaluate[string](b, fmt.Sprintf(`(document.querySelector(%q) || {innerText: ''}).innerText`, selector))
}

// looks sets the size of the window and the colours that the user prefers.
func (b *browser) looks(width, height int64, colours string) {
	GinkgoHelper()
	_, err := chromedp.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	Expect(err).NotTo(HaveOccurred())
	b.run(chromedp.EmulateViewport(width, height))
}

// focused describes what has the focus, and says whether that can be seen.
func (b *browser) focused() (name string, visible bool) {
	GinkgoHelper()
	found := evaluate[[]string](b, `(() => {
		const e = document.activeElement, style = getComputedStyle(e);
		return [e.tagName.toLowerCase() + ' ' + (e.getAttribute('aria-label') || e.name || e.innerText.split('\n')[0]), style.outlineStyle + ' ' + style.outlineWidth];
	})()`)
	return found[0], found[1] != "none 0px" && !strings.HasPrefix(found[1], "none")
}

// picture takes a picture of the whole page. If TARN_SCREENSHOTS names a folder, it is kept there.
func (b *browser) picture(name string) []byte {
	GinkgoHelper()
	png, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	Expect(err).NotTo(HaveOccurred())
	Expect(png).To(HavePrefix("\x89PNG"))
	if folder := os.Getenv("TARN_SCREENSHOTS"); folder != "" {
		Expect(os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644)).To(Succeed())
	}
	return png
}

// scene is a cache with kinds in several states, and a slow handler: its page, and the namespace of its
// objects.
func scene(ctx context.Context) (page *httptest.Server, namespace string) {
	GinkgoHelper()
	namespace = newNamespace(ctx)
	for n := range 30 {
		create(ctx, configMap(namespace, fmt.Sprintf("part-%02d", n), map[string]string{"side": []string{"port", "starboard"}[n%2]}))
	}
	create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chest"}, StringData: map[string]string{"gold": treasure}})
	name, its := newUser(ctx, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"list", "watch"}})
	absent := &unstructured.Unstructured{}
	absent.SetAPIVersion("sea.example.com/v1")
	absent.SetKind("Whale")
	c := started(cache.With(cache.Tuning{
		Name: name, TuningByObject: cache.TuningByObject{OnFailure: cache.Isolate},
		ByObject: map[client.Object]cache.TuningByObject{absent: {Optional: ptr.To(true)}},
	}), its, cache.Options{Mapper: mapper(), DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	watched(ctx, c, &corev1.ConfigMap{}, absent)
	Expect(c.List(ctx, &corev1.SecretList{})).To(Succeed()) // starts an informer
	_, err := c.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	Expect(err).NotTo(HaveOccurred())
	Expect(c.IndexField(ctx, &corev1.ConfigMap{}, "set", setOf)).To(Succeed())
	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	Expect(err).NotTo(HaveOccurred())
	slow := make(chan struct{})
	DeferCleanup(func() { close(slow) })
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-slow }})
	Expect(err).NotTo(HaveOccurred())
	h, err := inspect.New(c, inspect.Options{})
	Expect(err).NotTo(HaveOccurred())
	l := looking{h}
	Eventually(func() any { return l.informer("Pod", "structured")["state"] }).Should(HaveKeyWithValue("phase", "not synced"))
	for _, kind := range []string{"ConfigMap", "Secret"} {
		Eventually(func() any { return l.informer(kind, "structured")["state"] }).Should(HaveKeyWithValue("phase", "synced"))
	}
	mux := http.NewServeMux()
	mux.Handle("/some/prefix/", http.StripPrefix("/some/prefix", h))
	page = httptest.NewServer(mux)
	DeferCleanup(page.Close)
	return page, namespace
}

var _ = Describe("The page", func() {
	It("is short for a kind in a thousand namespaces, whose answers are too", func(ctx SpecContext) {
		b := openBrowser()
		const namespaces, kib = 1000, 32
		opts := cache.Options{DefaultNamespaces: map[string]cache.Config{}}
		for n := range namespaces {
			opts.DefaultNamespaces[fmt.Sprintf("wide-%04d", n)] = cache.Config{}
		}
		c := started(cache.New, cfg, opts)
		watched(ctx, c, &corev1.ConfigMap{})
		informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.IndexField(ctx, &corev1.ConfigMap{}, "set", setOf)).To(Succeed())
		l := look(c, inspect.Options{})
		for _, path := range []string{"/api/v1/overview", configMaps, configMaps + "?from=980", configMaps + "/events", configMaps + "/explain"} {
			Expect(len(l.text(http.StatusOK, path))).To(BeNumerically("<", kib<<10), path)
		}
		page := httptest.NewServer(l.handler)
		DeferCleanup(page.Close)
		b.looks(1440, 900, "light")
		b.run(chromedp.Navigate(page.URL+"#/kinds/core/v1/ConfigMap/structured"), chromedp.WaitVisible(`details[data-key="Namespaces"]`))
		height := `document.documentElement.scrollHeight`
		Expect(evaluate[int](b, height)).To(BeNumerically("<", 3000))
		b.run(chromedp.Click(`details[data-key="Namespaces"] summary`), chromedp.Click(`[data-key="scopes on"]`))
		namespacesShown := func() string { return b.text(`details[data-key="Namespaces"]`) }
		Eventually(namespacesShown).Should(And(ContainSubstring("21 to 40 of 1,000"), ContainSubstring("wide-0020"), Not(ContainSubstring("wide-0019"))))
		b.picture("thousand")
		Expect(evaluate[int](b, height)).To(BeNumerically("<", 4000))
		b.run(chromedp.Click(`[data-key="scopes back"]`))
		Eventually(namespacesShown).Should(ContainSubstring("wide-0019"))
	}, SpecTimeout(10*patience))

	It("shows the cache, in light and dark, on wide and narrow screens, to the keyboard too", func(ctx SpecContext) {
		b := openBrowser()
		page, namespace := scene(ctx)
		address := page.URL + "/some/prefix/"
		link := func(kind string) string { return fmt.Sprintf(`a[data-key="kinds/core/v1/%s/structured"]`, kind) }

		By("drawing the overview")
		b.looks(1440, 900, "light")
		b.run(chromedp.Navigate(address), chromedp.WaitVisible(link("ConfigMap")))
		Expect(b.text("table")).To(And(ContainSubstring("not synced"), ContainSubstring("dormant"), ContainSubstring("forbidden")))
		started := func(kind string) string {
			return evaluate[string](b, fmt.Sprintf(`document.querySelector('table %s').parentElement.innerText`, link(kind)))
		}
		Expect(started("Secret")).To(ContainSubstring("started by a read"))
		Expect(started("ConfigMap")).NotTo(ContainSubstring("started by a read"))
		Expect(b.text(".notes")).To(And(ContainSubstring("Pod"), ContainSubstring("has not synced: forbidden"), Not(ContainSubstring("Whale"))), "an optional kind is absent by choice")
		Expect(b.text("h1 + p")).To(And(MatchRegexp(`^(Pod|host) \S+ · inspect\.test `), ContainSubstring("up "), ContainSubstring("4 kinds")))
		Eventually(func() string { return b.text(".notes") }).Should(And(ContainSubstring("slow handler"), ContainSubstring("cache.ResourceEventHandlerFuncs has not returned from an event for 1")))

		By("copying the role that is missing, with its binding")
		b.run(chromedp.Click(`.notes summary`), chromedp.WaitVisible(`.copied button`), chromedp.Click(`.copied button`))
		Eventually(func() string { return b.text(`.copied button`) }).Should(Or(Equal("Copied"), HavePrefix("Selected")))
		Expect(b.text(`.copied pre`)).To(And(ContainSubstring("kind: Role\n"), ContainSubstring("kind: RoleBinding\n"), MatchRegexp(`kind: User\n.*\n +name: "inspect-\w+"`)))
		b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(address), chromedp.WaitVisible(link("ConfigMap")))
		Expect(evaluate[string](b, `document.querySelector('.pipeline svg').getAttribute('aria-label')`)).To(And(ContainSubstring("2 of 4 informers follow"), ContainSubstring("1 in trouble")))

		By("being used with the keyboard alone")
		var names []string
		for range 14 {
			b.run(chromedp.KeyEvent(kb.Tab))
			name, visible := b.focused()
			Expect(visible).To(BeTrue(), "the focus of %q cannot be seen", name)
			if names = append(names, name); name == "a ConfigMap" && slices.Contains(names, "div Informers") {
				break
			}
		}
		Expect(names).To(HaveExactElements(
			"a Cache", "button Pause", "a ConfigMap", "a Pod", "summary The role that is missing, and its binding", "div Informers", "a ConfigMap"), "the order of the focus")
		before := b.text("#status")
		Eventually(func() string { return b.text("#status") }).WithTimeout(patience).ShouldNot(Equal(before), "the page looks again")
		name, _ := b.focused()
		Expect(name).To(Equal("a ConfigMap"), "the focus stays when the page looks again")
		b.run(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`form input[name="labelSelector"]`))
		name, _ = b.focused()
		Expect(name).To(Equal("h1 ConfigMap"), "the focus goes to the new view")

		By("listing objects")
		Eventually(func() string { return b.text("form + div") }).Should(And(ContainSubstring("Plan: all"), ContainSubstring("part-07")))
		b.run(
			chromedp.SetValue(`input[name="namespace"]`, namespace), chromedp.SetValue(`input[name="limit"]`, "4"),
			chromedp.SendKeys(`input[name="labelSelector"]`, "side=port"+kb.Enter),
		)
		Eventually(func() string { return b.text("form + div") }).Should(And(ContainSubstring("part-00"), ContainSubstring("side=port"), Not(ContainSubstring("part-01")), ContainSubstring("there are more")))
		b.run(chromedp.Click(`form + div .row button`))
		Eventually(func() string { return b.text("form + div") }).Should(And(ContainSubstring("part-08"), Not(ContainSubstring("part-06"))))
		b.run(chromedp.SetValue(`input[name="labelSelector"]`, "side in"), chromedp.Click("form button"))
		Eventually(func() string { return b.text("form + div") }).Should(ContainSubstring("labelSelector"))
		evaluate[string](b, `document.querySelector('input[name="labelSelector"]').value = ''`)
		b.run(chromedp.Click("form button"), chromedp.WaitVisible(`form + div tbody a`))
		b.run(chromedp.Focus(`form + div tbody a`), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`pre[aria-label="YAML"]`))
		Expect(b.text(`pre[aria-label="YAML"]`)).To(ContainSubstring("kind: ConfigMap"))
		Expect(evaluate[string](b, `document.querySelector('tr.below').previousSibling.querySelector('a').innerText`)).To(Equal("part-00"), "it opens where it is seen")
		name, _ = b.focused()
		Expect(name).To(HavePrefix("h3 " + namespace + "/part-00"))

		By("having an address for all that is seen")
		open := func() string { return b.text("tr.below h3") }
		evaluate[bool](b, `history.back(); true`)
		Eventually(open).Should(BeEmpty(), "Back leaves the object")
		name, _ = b.focused()
		Expect(name).To(Equal("a part-00"))
		b.run(chromedp.SendKeys(`input[name="labelSelector"]`, "side=port"+kb.Enter))
		Eventually(func() string { return b.text("form + div") }).Should(And(ContainSubstring("part-06"), Not(ContainSubstring("part-01"))))
		b.run(chromedp.Click(`form + div .row button`))
		Eventually(func() string { return b.text("form + div") }).Should(ContainSubstring("part-14"))
		b.run(chromedp.Click(fmt.Sprintf(`a[data-key="object %s/part-14"]`, namespace)))
		Eventually(open).Should(ContainSubstring("part-14"))
		pasted := evaluate[string](b, `location.href`)
		Expect(pasted).To(And(ContainSubstring("labelSelector=side%3Dport"), ContainSubstring("limit=4"), ContainSubstring("continue="), ContainSubstring("part-14")))
		b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(pasted))
		Eventually(open).Should(ContainSubstring("part-14"), "what is pasted shows the same")
		Expect(evaluate[string](b, `document.querySelector('input[name="labelSelector"]').value`)).To(Equal("side=port"))
		Expect(b.text("form + div")).To(And(ContainSubstring("part-10"), Not(ContainSubstring("part-06"))))
		b.run(chromedp.Navigate(address + "#/kinds/core/v1/ConfigMap/structured?limit=2&object=" + namespace + "/part-29"))
		Eventually(func() string { return b.text(".opened pre") }).Should(ContainSubstring("name: part-29"), "an object may be on no page that is shown")
		b.run(chromedp.Click(`.opened h3 a`))
		Eventually(func() string { return b.text(".opened") }).Should(BeEmpty())
		Expect(evaluate[[]string](b, `[...document.querySelectorAll('section, details')].map((node) => node.innerText.split('\n')[0]).slice(-5)`)).To(
			HaveExactElements("Recent events", "Objects", "Event handlers", "Indexes", "Memory"), "what is looked for comes before what it takes")

		By("showing events as they come")
		create(ctx, configMap(namespace, "just-now", nil))
		Eventually(func() string { return b.text("section[aria-labelledby=recent]") }).Should(And(ContainSubstring("just-now"), ContainSubstring("1 added")))
		Expect(evaluate[int](b, `document.querySelectorAll('.tick-added').length`)).To(Equal(1))

		By("hiding values of Secrets")
		b.run(chromedp.Navigate(address+"#/kinds/core/v1/Secret/structured"), chromedp.WaitVisible(`form + div tbody a`))
		Eventually(func() string { return b.text("p.note") }).Should(MatchRegexp(`^Started by a read: \S+browser_test\.go:\d+ \(github\.com/tarn-dev/tarn/pkg/inspect_test\.scene\)`))
		b.run(chromedp.Click(`form + div tbody tr:last-child a`), chromedp.WaitVisible(`pre[aria-label="YAML"]`))
		Expect(b.text(`pre[aria-label="YAML"]`)).To(ContainSubstring("(hidden)"))

		By("looking well")
		for _, colours := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 390} {
				b.looks(width, 900, colours)
				for name, path := range map[string]string{"overview": "", "kind": "#/kinds/core/v1/ConfigMap/structured", "read": "#/kinds/core/v1/Secret/structured"} {
					b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(address+path), chromedp.WaitVisible("tbody"))
					Eventually(func() string { return b.text("#status") + b.text("h1") }).ShouldNot(BeEmpty())
					b.picture(fmt.Sprintf("%s-%s-%d", name, colours, width))
					Expect(evaluate[int64](b, `document.documentElement.scrollWidth`)).To(BeNumerically("<=", width), "the page is wider than the screen: only tables scroll")
					Expect(evaluate[string](b, `getComputedStyle(document.body).backgroundColor`)).To(Equal(map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[colours]))
				}
			}
		}

		By("asking nobody else, and without a complaint of the browser")
		for _, said := range b.said() { // the browser itself notes the list that was refused
			Expect(said).To(And(ContainSubstring("400 (Bad Request)"), ContainSubstring("labelSelector=side+in")))
		}
		before = fmt.Sprint(b.said())
		for _, asked := range b.requests() {
			Expect(asked).To(Or(HavePrefix(address), Equal("about:blank")))
		}
		evaluate[bool](b, `{ const image = new Image(); image.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='; true }`)
		Eventually(func() string { return fmt.Sprint(b.said()) }).ShouldNot(Equal(before), "what is of others is refused, and this test would see it")
	}, SpecTimeout(10*patience))
})
