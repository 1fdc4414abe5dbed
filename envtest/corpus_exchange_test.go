// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// caller sends requests to one server.
type caller struct {
	client *http.Client
	host   string
}

func newCaller(config *rest.Config) (*caller, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &caller{client: client, host: strings.TrimSuffix(config.Host, "/")}, nil
}

// ask is one request of the corpus.
type ask struct {
	label   string // says what is asked; with the resource it names the request among all
	method  string
	path    string
	content string // media type of body
	body    any    // JSON value, or []byte sent as they are, or nil
	table   bool   // asks for a Table whose rows have their objects
}

// answer is what a server said.
type answer struct {
	code   int
	object map[string]any // nil if the body is no JSON object
	text   string         // the body otherwise
	// warnings are the texts of the Warning headers, sorted.
	warnings []string
	rows     []any // of a Table: the cells of each row by the name of their column. object is that of a single row.
}

func (c *caller) send(ctx context.Context, a ask) (answer, error) {
	var body []byte
	switch b := a.body.(type) {
	case nil:
	case []byte:
		body = b
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		body = data
	}
	req, err := http.NewRequestWithContext(ctx, a.method, c.host+a.path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	if a.table {
		req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		req.URL.RawQuery = strings.TrimPrefix(req.URL.RawQuery+"&includeObject=Object", "&")
	}
	if body != nil {
		req.Header.Set("Content-Type", a.content)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{code: resp.StatusCode}
	headers, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
	for _, header := range headers {
		got.warnings = append(got.warnings, header.Text)
	}
	slices.Sort(got.warnings) // those about the keys of a map come in any order
	if json.Unmarshal(data, &got.object) != nil {
		got.object, got.text = nil, string(data)
	}
	if got.object["kind"] == "Table" {
		got.takeTable()
	}
	return got, nil
}

// anAge is a cell that says how long ago something was.
var anAge = regexp.MustCompile(`^(\d+[smhdy]){1,2}$`)

// takeTable takes the cells out of a Table, and the object of a single row.
func (a *answer) takeTable() {
	columns, _ := a.object["columnDefinitions"].([]any)
	rows, _ := a.object["rows"].([]any)
	for _, row := range rows {
		cells, _ := row.(map[string]any)["cells"].([]any)
		named := map[string]any{}
		for i, cell := range cells {
			if text, ok := cell.(string); ok && anAge.MatchString(text) {
				cell = "an age"
			}
			name := fmt.Sprint(i)
			if i < len(columns) {
				name, _ = columns[i].(map[string]any)["name"].(string)
			}
			named[name] = cell
		}
		a.rows = append(a.rows, named)
	}
	if len(rows) == 1 {
		a.object, _ = rows[0].(map[string]any)["object"].(map[string]any)
	}
}

// refused tells whether the server did not do what was asked.
func (a answer) refused() bool { return a.code >= http.StatusBadRequest }

// status reads a Status that says why the request was refused.
func (a answer) status() metav1.Status {
	var status metav1.Status
	data, err := json.Marshal(a.object)
	if err == nil {
		_ = json.Unmarshal(data, &status)
	}
	return status
}

// verdict is a refusal in one line: code, reason, and the type and field of each cause, sorted. What was done is "ok".
func (a answer) verdict() string {
	if !a.refused() {
		return "ok"
	}
	status := a.status()
	line := fmt.Sprintf("%d %s", a.code, status.Reason)
	if causes := a.causes(); len(causes) > 0 {
		line += " [" + strings.Join(causes, ", ") + "]"
	}
	return line
}

func (a answer) causes() []string {
	status := a.status()
	if status.Details == nil {
		return nil
	}
	var causes []string
	for _, cause := range status.Details.Causes {
		causes = append(causes, fmt.Sprintf("%s %s", strings.TrimPrefix(string(cause.Type), "FieldValue"), cause.Field))
	}
	slices.Sort(causes)
	return slices.Compact(causes)
}

var (
	serviceAddress = regexp.MustCompile(`^10\.0\.0\.\d+$`)
	nodePort       = regexp.MustCompile(`:3\d{4}/`) // in a cell
	generatedName  = regexp.MustCompile(`^(Not_valid-)[a-z0-9]{5}$|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	volatileKeys   = map[string]bool{
		"uid": true, "resourceVersion": true, "creationTimestamp": true, "deletionTimestamp": true, "selfLink": true,
		"nodePort": true, "healthCheckNodePort": true, "time": true, "lastTransitionTime": true, "timeAdded": true, "lastPhaseTransitionTime": true,
		"lastUpdateTime": true, "Created At": true,
		"username": true, "Requestor": true, "authentication.kubernetes.io/credential-id": true, // who asks is another one for each server
		"controller-uid": true, "batch.kubernetes.io/controller-uid": true, "token": true, "expirationTimestamp": true,
	}
)

// lasting removes what differs by nature: identities, times, versions, and addresses and ports that a server chose. Empty
// values count as missing ones: whether an empty list is written depends on the version of the types alone.
func lasting(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, item := range v {
			if volatileKeys[key] {
				continue
			}
			if key == "fieldsV1" {
				kept[key] = item // names of fields only
				continue
			}
			item = lasting(item)
			if entries, ok := item.([]any); ok && key == "managedFields" { // sorted by time, which is no good for a comparison
				slices.SortFunc(entries, func(a, b any) int { return strings.Compare(whole(a), whole(b)) })
			}
			if !blank(item) {
				kept[key] = item
			}
		}
		return kept
	case []any:
		var kept []any
		for _, item := range v {
			kept = append(kept, lasting(item))
		}
		return kept
	case string:
		if serviceAddress.MatchString(v) {
			return "an address"
		}
		return nodePort.ReplaceAllString(generatedName.ReplaceAllString(v, "$1"), ":a port/")
	}
	return value
}

func blank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// differences lists the paths at which two values differ, with both values.
func differences(path string, theirs, ours any) []string {
	t, isMap := theirs.(map[string]any)
	o, alsoMap := ours.(map[string]any)
	if isMap && alsoMap {
		keys := maps.Clone(t)
		maps.Copy(keys, o)
		var found []string
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			found = append(found, differences(path+"."+key, t[key], o[key])...)
		}
		return found
	}
	tl, isList := theirs.([]any)
	ol, alsoList := ours.([]any)
	if isList && alsoList && len(tl) == len(ol) {
		var found []string
		for i := range tl {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), tl[i], ol[i])...)
		}
		return found
	}
	if reflect.DeepEqual(theirs, ours) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s, not %s", strings.TrimPrefix(path, "."), short(ours), short(theirs))}
}

// whole is a value as JSON.
func whole(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// short is a value as JSON, cut where it becomes long.
func short(value any) string {
	text := whole(value)
	if len(text) > 120 {
		return text[:120] + "…"
	}
	return text
}
