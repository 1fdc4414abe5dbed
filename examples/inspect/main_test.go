// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarn-dev/tarn/examples/internal/cluster"
)

// TestEachKindIsSeen runs the example and looks at its page as its output says.
func TestEachKindIsSeen(t *testing.T) {
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	printed, out := io.Pipe()
	ended := make(chan error, 1)
	var c *cluster.Cluster
	go func() {
		ended <- cluster.Use(func(ctx context.Context, of *cluster.Cluster, out io.Writer) error {
			c = of
			return run(ctx, of, out)
		})(ctx, cluster.Flags{}, out)
		_ = out.Close()
	}()
	text := make([]byte, 4<<10)
	n, err := printed.Read(text)
	if err != nil {
		t.Fatalf("nothing was printed: %v, %v", err, <-ended)
	}
	look := lookAs(t, string(text[:n]))

	want := map[string]string{"ConfigMap": "synced", "Secret": "synced", "Service": "silent", "Node": "not synced", "Lake": "dormant"}
	for got := map[string]string{}; !maps.Equal(got, want); {
		if ctx.Err() != nil {
			t.Fatalf("the kinds are %v, want %v", got, want)
		}
		got = look.phases(t)
	}
	if code, _ := look.get(t, "", look.address); code != http.StatusUnauthorized {
		t.Errorf("without a token the answer is %d", code)
	}
	other := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "inspect", Name: "operator"}}
	if err := c.Client.SubResource("token").Create(ctx, account, other); err != nil {
		t.Fatal(err)
	}
	if code, _ := look.get(t, other.Status.Token, look.address); code != http.StatusForbidden {
		t.Errorf("with the token of an account without the right the answer is %d", code)
	}
	if code, page := look.get(t, "", look.door); code != http.StatusOK || !strings.Contains(page, "app.js") {
		t.Errorf("through the door the answer is %d: %s", code, page)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(look.ca); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", look.ca, err)
	}
}

// looking is what the output says.
type looking struct {
	ca, token, address, door string
	client                   *http.Client
}

func lookAs(t *testing.T, text string) *looking {
	t.Helper()
	curl := regexp.MustCompile(`curl --cacert (\S+) -H "Authorization: Bearer \$\(cat (\S+)\)" (https://\S+)`).FindStringSubmatch(text)
	door := regexp.MustCompile(`(?m)^  (http://\S+)$`).FindStringSubmatch(text)
	if curl == nil || door == nil {
		t.Fatalf("the output does not say how to look:\n%s", text)
	}
	l := &looking{ca: curl[1], address: curl[3], door: door[1]}
	token, err := os.ReadFile(curl[2])
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := os.ReadFile(l.ca)
	if err != nil {
		t.Fatal(err)
	}
	l.token = string(token)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	l.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return l
}

func (l *looking) get(t *testing.T, token, address string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := l.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// phases returns the phase of each kind in the overview.
func (l *looking) phases(t *testing.T) map[string]string {
	t.Helper()
	code, body := l.get(t, l.token, l.address)
	if code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", code, body)
	}
	overview := struct {
		Kinds []struct {
			Kind  string
			State struct{ Phase string }
		}
	}{}
	if err := json.Unmarshal([]byte(body), &overview); err != nil {
		t.Fatal(err)
	}
	phases := map[string]string{}
	for _, k := range overview.Kinds {
		phases[k.Kind] = k.State.Phase
	}
	return phases
}
