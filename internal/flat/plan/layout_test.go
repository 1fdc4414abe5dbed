// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/plan"
	"github.com/tarn-dev/tarn/internal/object"
)

// TestTypesThatMemoryDoesNotFitAreRefused breaks each assumption about Go's memory in turn. What
// rests on it is refused with the reason, and stays decoded; what does not is accepted.
func TestTypesThatMemoryDoesNotFitAreRefused(t *testing.T) {
	for name, broken := range plan.BrokenLayouts {
		t.Run(name, func(t *testing.T) {
			typ := broken.Type
			if typ == nil {
				typ = reflect.TypeFor[corev1.Pod]()
			}
			plan.WithLayout(t, typ, broken.Break)
			expectDecoded(t, typ, broken.Reason)
			if broken.Other == nil {
				return
			}
			plan.WithLayout(t, broken.Other, broken.Break)
			if _, err := flat.For(broken.Other); err != nil {
				t.Errorf("a type that does not rest on it: %v", err)
			}
		})
	}
}

// expectDecoded expects that a type has no codec for a reason, and that a form keeps its objects
// decoded for that reason.
func expectDecoded(t *testing.T, typ reflect.Type, reason string) {
	t.Helper()
	_, err := flat.For(typ)
	var unsupported *flat.UnsupportedError
	if !errors.As(err, &unsupported) || !strings.Contains(unsupported.Reason, reason) || unsupported.Type != typ {
		t.Fatalf("got %v, want an UnsupportedError that says %q", err, reason)
	}
	form := object.NewForm(object.Options{Type: reflect.PointerTo(typ), Verify: true})
	if form.Reason() == nil || form.Reason().Error() != err.Error() {
		t.Errorf("the form says %v, want %v", form.Reason(), err)
	}
	obj := reflect.New(typ).Interface()
	kept := form.Keep(obj)
	if kept.IsFlat() {
		t.Error("an object is kept flat")
	}
	if same, err := form.Shared(kept); err != nil || same != obj {
		t.Errorf("what is kept is %v (%v), want the object itself", same, err)
	}
}

// TestEveryCheckIsListed keeps the section "Unsafe assumptions" of the package comment complete:
// each check of the layout stands there.
func TestEveryCheckIsListed(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "doc.go"), "# Unsafe assumptions")
	checks := regexp.MustCompile(`func \(l \*layout\) (\w+)\(`).FindAllStringSubmatch(readFile(t, "layout.go"), -1)
	if !found || len(checks) < 10 {
		t.Fatalf("the section was found: %v, and %d checks", found, len(checks))
	}
	for _, check := range checks {
		if !strings.Contains(section, check[1]) {
			t.Errorf("the package comment does not mention %s", check[1])
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
