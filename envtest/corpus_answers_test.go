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
		said := story.answer(request)[0].said()
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

// said is what an answer says beside the object, a line each.
func (a answer) said() string {
	var lines strings.Builder
	if a.refused() {
		fmt.Fprintln(&lines, a.verdict())
	}
	for _, warning := range a.warnings {
		fmt.Fprintln(&lines, "Warning:", warning)
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

// answer asks a request of the file, and returns what the servers say to its last step.
func (s *story) answer(request string) [2]answer {
	verb, rest, _ := strings.Cut(request, " ")
	_, rest, _ = strings.Cut(rest, " ")
	patches := parsePatches(rest)
	name := s.fresh()
	obj := s.object(name)
	if len(patches) > 0 {
		obj = merged(obj, patches[0])
	}
	name, _ = metadata(obj)["name"].(string)
	if verb == "create" {
		return s.post(request, dry, obj)
	}
	defer s.delete("delete after "+request, name, "?gracePeriodSeconds=0&propagationPolicy=Background", nil)
	s.post("create for "+request, "", obj)
	second := func(obj map[string]any) { merged(obj, patches[1]) }
	switch verb {
	case "update":
		return s.put(request, name, dry, second)
	case "status":
		return s.put(request, name, "/status"+dry, second)
	case "scale":
		return s.patch(request, name, "/scale"+dry, mergePatch, raw(replicas))
	case "delete":
		return s.delete(request, name, dry, nil)
	case "deletecollection":
		return s.both(ask{request, http.MethodDelete, s.collection() + dry + "&fieldSelector=metadata.name=nobody", jsonType, nil})
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
