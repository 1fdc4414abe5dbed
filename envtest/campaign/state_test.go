// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
)

// stateAfter returns what is in a new server after some objects were created. Each sees the ones before it.
func stateAfter(t *testing.T, objects ...func(before []client.Object) client.Object) state {
	t.Helper()
	env := envtest.Start(t)
	reader, err := newStateReader(&Plan{}, env.Config())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(env.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var created []client.Object
	for _, o := range objects {
		next := o(created)
		next.SetNamespace(metav1.NamespaceDefault)
		if err := c.Create(context.Background(), next); err != nil {
			t.Fatal(err)
		}
		created = append(created, next)
	}
	s, err := reader.state(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// story makes objects with all that is otherwise each time. The secret and the size are what counts.
func story(secret, size string) []func([]client.Object) client.Object {
	return []func([]client.Object) client.Object{
		func([]client.Object) client.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}, Data: map[string]string{"size": size}}
		},
		func(before []client.Object) client.Object {
			made := before[0]
			return &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "v1", Kind: "ConfigMap", Name: made.GetName(), UID: made.GetUID()},
				}},
				Data: map[string]string{"of": "the object " + made.GetName(), "uid": string(made.GetUID()), "at": made.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")},
			}
		},
		func([]client.Object) client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"password": secret}}
		},
		func([]client.Object) client.Object {
			return &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "service"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
			}
		},
	}
}

func TestWhatIsOtherwiseEachTimeIsNotCompared(t *testing.T) {
	one := stateAfter(t, story("abc", "1")...)
	if d := one.differences(stateAfter(t, story("abc", "1")...)); len(d) > 0 {
		t.Errorf("the same differs:\n%s", strings.Join(d, "\n"))
	}
	if got := one["v1 ConfigMap default/child"]; got["data.of"] != `"the object made-*"` || got["data.uid"] != `"a UID"` || got["data.at"] != `"a time"` {
		t.Error(got)
	}
	d := one.differences(stateAfter(t, story("abd", "2")...))
	if len(d) != 2 || d[0] != `v1 ConfigMap default/made-*: data.size is "2", and not "1"` || !strings.HasPrefix(d[1], "v1 Secret default/hidden: data.password is \"secret ") {
		t.Errorf("what differs is\n%s", strings.Join(d, "\n"))
	}
	if text := fmt.Sprint(one); strings.Contains(text, "abc") || strings.Contains(text, "YWJj") {
		t.Error("a secret is shown:", text)
	}
}
