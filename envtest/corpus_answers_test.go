// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarn-dev/tarn/envtest"
)

// answersFile has requests, and what a kube-apiserver v1.36.3 says to each beside the object: why it refuses it, and its
// warnings. A request is a verb of answer, a resource, and merge patches of the sample of its kind. It is written by
//
//	go run ./envtest/cmd/oracle -kubeconfig FILE &
//	TARN_ORACLE_KUBECONFIG=FILE TARN_WRITE_ANSWERS=true go test ./envtest -run TestAnswers
const answersFile = "testdata/answers.txt"

// TestAnswers compares what the server says with what the file has.
func TestAnswers(t *testing.T) {
	config := envtest.Start(t).Config()
	if kubeconfig := os.Getenv(oracleVariable); kubeconfig != "" {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	server, err := newCaller(config)
	if err != nil {
		t.Fatal(err)
	}
	stories := map[string]*story{}
	c := &corpus{run: strconv.FormatInt(time.Now().UnixNano(), 36), servers: []*caller{server}}
	for _, s := range slices.Backward(samples()) { // of two versions the first one counts
		stories[s.resource.Resource] = newStory(c, s, nil)
	}
	var file strings.Builder
	for _, entry := range recordedAnswers() {
		request, want, _ := strings.Cut(entry, "\n")
		story := stories[strings.Fields(request)[1]]
		if story.ctx == nil {
			if story.ctx = t.Context(); story.makeNamespace() != nil {
				t.Fatalf("no namespace for %s", story.kind)
			}
		}
		got, before := story.answer(request)
		said := got[0].said(before[0])
		if story.err != nil {
			t.Fatal(story.err)
		}
		said = strings.ReplaceAll(said, "-"+c.run, "")
		if fmt.Fprintf(&file, "$ %s\n%s", request, said); strings.TrimSpace(said) != want && os.Getenv("TARN_WRITE_ANSWERS") == "" {
			t.Errorf("$ %s\n%s--- a real server\n%s", request, said, want)
		}
	}
	if os.Getenv("TARN_WRITE_ANSWERS") == "true" && os.Getenv(oracleVariable) != "" {
		if err := os.WriteFile(answersFile, []byte(file.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// recordedAnswers are the entries of the file: a request, and below it what was said.
func recordedAnswers() []string {
	data, err := os.ReadFile(answersFile)
	if err != nil {
		panic(err)
	}
	return strings.Split(strings.TrimPrefix(strings.TrimSpace(string(data)), "$ "), "\n$ ")
}

// said is what an answer says, a line each: why something is refused, warnings, the cells of a table, and what of the object
// differs from before, if there is such an object.
func (a answer) said(before answer) string {
	var lines strings.Builder
	if a.refused() {
		fmt.Fprintln(&lines, a.verdict())
	}
	for _, warning := range a.warnings {
		fmt.Fprintln(&lines, "Warning:", warning)
	}
	for _, row := range a.rows {
		delete(row.(map[string]any), "Name") // of the run
		fmt.Fprintln(&lines, whole(row))
	}
	if before.object != nil && !a.refused() {
		for _, line := range differences("", lasting(before.object), lasting(a.object)) {
			if !strings.HasPrefix(line, "metadata.managedFields") && !strings.HasPrefix(line, "metadata.name:") {
				fmt.Fprintln(&lines, line)
			}
		}
	}
	return lines.String()
}

// written asks what the file has about the kind.
func (s *story) written() {
	for _, entry := range recordedAnswers() {
		if request, _, _ := strings.Cut(entry, "\n"); strings.Fields(request)[1] == s.resource.Resource {
			s.answer(request)
		}
	}
}

// answer asks a request of the file, and returns what the servers say to its last step. The verbs in capitals tell what becomes of
// the object: before is what the last step would have changed.
func (s *story) answer(request string) (got, before [2]answer) {
	verb, rest, _ := strings.Cut(request, " ")
	_, rest, _ = strings.Cut(rest, " ")
	patches := append(parsePatches(rest), nil, nil)
	plain := s.object(s.fresh())
	obj := merged(clone(plain), patches[0])
	name, _ := metadata(obj)["name"].(string)
	switch verb {
	case "create":
		return s.post(request, dry, obj), before
	case "CREATE":
		return s.post(request, dry, obj), s.post("create before "+request, dry, plain)
	}
	defer s.delete("delete after "+request, name, "?gracePeriodSeconds=0&propagationPolicy=Background", nil)
	made := s.post("create for "+request, "", obj)
	second := func(obj map[string]any) { merged(obj, patches[1]) }
	switch verb {
	case "update":
		return s.put(request, name, dry, second), before
	case "UPDATE":
		return s.put(request, name, dry, second), made
	case "status", "ephemeralcontainers", "resize":
		return s.put(request, name, "/"+verb+dry, second), before
	case "scale":
		return s.patch(request, name, "/scale"+dry, mergePatch, raw(replicas)), before
	case "delete":
		return s.delete(request, name, dry, nil), before
	case "deletecollection":
		return s.both(ask{label: request, method: http.MethodDelete, path: s.collection() + dry + "&fieldSelector=metadata.name=nobody"}), before
	case "table":
		if patches[1] != nil {
			s.put("status for "+request, name, "/status", second)
		}
		return s.table(request, "/"+name), before
	case "BIND":
		target := map[string]any{"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": name}, "target": map[string]any{"name": "a"}}
		s.both(ask{label: request, method: http.MethodPost, path: s.collection() + "/" + name + "/binding", content: jsonType, body: merged(target, patches[1])})
		return s.get("get after "+request, "/"+name), made
	}
	panic("no request has the verb " + verb)
}

func parsePatches(text string) (patches []map[string]any) {
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var patch map[string]any
		switch err := decoder.Decode(&patch); {
		case errors.Is(err, io.EOF):
			return patches
		case err != nil:
			panic(fmt.Sprintf("%s: %v", text, err))
		}
		patches = append(patches, patch)
	}
}
