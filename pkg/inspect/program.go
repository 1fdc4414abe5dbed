// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// loaded is about when the process began.
var loaded = time.Now()

// module is the path of this module.
const module = "github.com/tarn-dev/tarn"

// program says whose cache is shown.
type program struct {
	// Pod is NAMESPACE/NAME, or the name alone if the namespace is not known. Host is set outside of Pods.
	Pod  string `json:"pod,omitempty"`
	Host string `json:"host,omitempty"`
	Name string `json:"name"`
	// Version is the version of the program's module, with the revision that it was built from, as far as the build has noted them.
	Version string    `json:"version,omitempty"`
	Tarn    string    `json:"tarn,omitempty"` // the version of Tarn
	Go      string    `json:"go,omitempty"`
	Started time.Time `json:"started"`
}

// thisProgram returns what is known of this process.
func thisProgram() program {
	p := program{Name: filepath.Base(os.Args[0]), Started: loaded}
	host, _ := os.Hostname()
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		p.Host = host
	} else {
		in, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		p.Pod = podOf(os.Getenv, strings.TrimSpace(string(in)), host)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		p.built(info)
	}
	return p
}

// podOf returns the name of a Pod. A Pod in the network of its node has the node's name for a host, so what the
// manifest says in variables goes first.
func podOf(env func(string) string, namespace, host string) string {
	if name := env("POD_NAME"); name != "" {
		host = name
	}
	if in := env("POD_NAMESPACE"); in != "" {
		namespace = in
	}
	return path.Join(namespace, host)
}

// built reads what the build has noted.
func (p *program) built(info *debug.BuildInfo) {
	p.Version, p.Go = info.Main.Version, info.GoVersion
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && !strings.Contains(p.Version, setting.Value[:min(12, len(setting.Value))]) {
			p.Version = strings.TrimSpace(p.Version + " " + setting.Value[:min(12, len(setting.Value))])
		}
	}
	if info.Main.Path == module {
		p.Tarn = info.Main.Version
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			p.Tarn = dependency.Version
		}
	}
}
