// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
)

// pinned are the checksums of some releases, in the form of go.sum: those of Kubernetes and of its staging modules, which
// are not in its own go.sum. The go command made them when it asked the checksum database. They are compared however the
// user has set up the go command, whose own checks can be switched off.
//
//go:embed sums
var pinned embed.FS

// pins are the checksums of the release, or nil if it is not pinned.
func (r release) pins() []byte {
	sums, err := pinned.ReadFile("sums/" + r.kubernetes + ".sum")
	if err != nil {
		return nil
	}
	return sums
}

// verify returns an error if what was downloaded is not the release that is pinned.
func (r release) verify(s source) error {
	pins := r.pins()
	if pins == nil {
		return nil // the checksum database has vouched for it: see environment
	}
	name := kubernetesModule + " " + r.kubernetes
	for line := range bytes.Lines(pins) {
		want, ok := strings.CutPrefix(strings.TrimSpace(string(line)), name+" ")
		if !ok {
			continue
		}
		if s.Sum != want {
			return fmt.Errorf("%s has the checksum %s, and not %s, which it was released with: "+
				"the module proxy (go env GOPROXY) or the module cache (go env GOMODCACHE) has another program under its name",
				name, s.Sum, want)
		}
		return nil
	}
	return fmt.Errorf("the checksums of %s lack its own: add it to sums/%s.sum", name, r.kubernetes)
}

// environment is what the go command needs in its environment so that somebody vouches for the modules: for a release that
// is not pinned, the checksum database, even where it is switched off.
func (r release) environment() []string {
	if r.pins() != nil {
		return nil
	}
	return []string{"GOSUMDB=sum.golang.org", "GONOSUMDB=none.invalid"}
}

// networkHint says what to do when the release cannot be downloaded.
func (r release) networkHint() string {
	if r.pins() != nil {
		return networkHint
	}
	return networkHint + "; the checksum database has to answer too (sum.golang.org, or a module proxy that serves it): " +
		"this program has the checksums of " + defaultKubernetes + " alone"
}
