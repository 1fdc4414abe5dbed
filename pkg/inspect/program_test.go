// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"runtime/debug"
	"testing"
)

// TestAPageSaysWhoItIs reads what Pods and builds tell.
func TestAPageSaysWhoItIs(t *testing.T) {
	for _, c := range []struct {
		env             map[string]string
		namespace, host string
		want            string
	}{
		{nil, "sea", "operator-5d9", "sea/operator-5d9"},
		{nil, "", "operator-5d9", "operator-5d9"},
		{map[string]string{"POD_NAME": "operator-5d9"}, "sea", "node-1", "sea/operator-5d9"},
		{map[string]string{"POD_NAME": "operator-5d9", "POD_NAMESPACE": "sea"}, "", "node-1", "sea/operator-5d9"},
	} {
		if got := podOf(func(name string) string { return c.env[name] }, c.namespace, c.host); got != c.want {
			t.Errorf("%+v is %q", c, got)
		}
	}
	p := program{}
	p.built(&debug.BuildInfo{
		GoVersion: "go1.26", Main: debug.Module{Path: "example.com/operator", Version: "v1.2.3"},
		Deps:     []*debug.Module{{Path: module, Version: "v0.25.1"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}},
	})
	if p.Version != "v1.2.3 0123456789ab" || p.Tarn != "v0.25.1" || p.Go != "go1.26" {
		t.Errorf("a release is %+v", p)
	}
	p = program{}
	p.built(&debug.BuildInfo{
		Main:     debug.Module{Path: module, Version: "v0.0.0-20261124082000-0123456789ab"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}},
	})
	if p.Version != "v0.0.0-20261124082000-0123456789ab" || p.Tarn != p.Version {
		t.Errorf("a commit, which its version names, is %+v", p)
	}
	if p := thisProgram(); p.Name == "" || p.Pod+p.Host == "" || p.Started.IsZero() {
		t.Errorf("this test is %+v", p)
	}
}
