// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tarn-dev/tarn/internal/store"
	"github.com/tarn-dev/tarn/pkg/informers"
	"github.com/tarn-dev/tarn/pkg/reader"
)

const (
	// defaultLimit and maxLimit are the number of objects in a list.
	defaultLimit = 100
	maxLimit     = 500
	// maxLabels is the number of labels of an object that a list shows.
	maxLabels = 20
	// maxYAML bounds the text of an object, in bytes.
	maxYAML = 1 << 20
)

// objectList is the answer to a list. It has the fields that the metadata of a list has.
type objectList struct {
	ResourceVersion string       `json:"resourceVersion,omitempty"`
	Continue        string       `json:"continue,omitempty"`
	Remaining       *int64       `json:"remainingItemCount,omitempty"`
	Items           []objectInfo `json:"items"`
}

// objectInfo is what a list shows of an object.
type objectInfo struct {
	Namespace       string            `json:"namespace,omitempty"`
	Name            string            `json:"name"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Created         *time.Time        `json:"created,omitempty"`
	Deleting        *time.Time        `json:"deleting,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	MoreLabels      int               `json:"moreLabels,omitempty"`
	// OwnWrite is the outcome of a write of the program that lies over what is shown.
	OwnWrite string `json:"ownWrite,omitempty"`
}

// explanation is the answer to explain.
type explanation struct {
	By         string   `json:"by"`
	Index      string   `json:"index,omitempty"`
	Candidates int      `json:"candidates"`
	Objects    int      `json:"objects"`
	Whole      bool     `json:"whole"`
	Missing    []string `json:"missing,omitempty"`
	Scopes     int      `json:"scopes"`
	Text       string   `json:"text"`
}

// selection is what a request selects of a kind.
type selection struct {
	found
	options client.ListOptions
	read    []*informers.MapEntry // the scopes that hold what is selected
	readers []*reader.CacheReader // theirs
}

// selected reads the selectors of a request.
func (h *handler) selected(r *http.Request) (s selection, err error) {
	if s.found, err = h.find(r); err != nil {
		return s, err
	}
	query := r.URL.Query()
	o := &s.options
	o.Namespace, o.Limit = query.Get("namespace"), defaultLimit
	if text := query.Get("limit"); text != "" {
		if o.Limit, err = strconv.ParseInt(text, 10, 64); err != nil || o.Limit < 1 {
			return s, apierrors.NewBadRequest(fmt.Sprintf("limit: %q is no number above zero", text))
		}
	}
	o.Limit, o.Continue = min(o.Limit, maxLimit), query.Get("continue")
	if text := query.Get("labelSelector"); text != "" {
		if o.LabelSelector, err = labels.Parse(text); err != nil {
			return s, apierrors.NewBadRequest(fmt.Sprintf("labelSelector: %v", err))
		}
	}
	if text := query.Get("fieldSelector"); text != "" {
		if o.FieldSelector, err = fields.ParseSelector(text); err != nil {
			return s, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
		}
		if err := h.allows(s.found, o.FieldSelector); err != nil {
			return s, err
		}
	}
	for _, entry := range s.entries {
		if o.Namespace == "" || entry.Namespace() == "" || entry.Namespace() == o.Namespace {
			s.read, s.readers = append(s.read, entry), append(s.readers, entry.Reader)
		}
	}
	if len(s.readers) == 0 {
		return s, notFound("the cache does not hold namespace %q of %s", o.Namespace, s.key)
	}
	return s, nil
}

// allows refuses to select what is hidden by its value, which could be guessed so.
func (h *handler) allows(f found, selector fields.Selector) error {
	if !h.hides(f.key) {
		return nil
	}
	for _, r := range selector.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return failure(http.StatusForbidden, metav1.StatusReasonForbidden,
				fmt.Sprintf("values of Secrets are hidden, so field %q cannot be selected by: metadata.name and metadata.namespace can", r.Field))
		}
	}
	return nil
}

// objects lists objects of a kind.
func (h *handler) objects(r *http.Request) (objectList, error) {
	s, err := h.selected(r)
	if err != nil {
		return objectList{}, err
	}
	page := &metav1.PartialObjectMetadataList{}
	if err := s.readers[0].Look(r.Context(), page, &s.options, s.readers[1:]...); err != nil {
		return objectList{}, h.unquoted(s.key, err)
	}
	page.Items = slices.CompactFunc(page.Items, isSame) // informers of leases may overlap
	list := objectList{
		ResourceVersion: page.ResourceVersion, Continue: page.Continue, Remaining: page.RemainingItemCount,
		Items: make([]objectInfo, len(page.Items)),
	}
	for i := range page.Items {
		list.Items[i] = infoOf(&page.Items[i])
		if w, ok := s.ownWrite(client.ObjectKeyFromObject(&page.Items[i])); ok {
			list.Items[i].OwnWrite = w.Outcome
		}
	}
	return list, nil
}

// isSame reports whether two informers have the same object.
func isSame(a, b metav1.PartialObjectMetadata) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name
}

// ownWrite returns the write of the program that lies over an object. It is shown beside the object of the
// watch, because the object with it may have to be asked for at the API server.
func (s *selection) ownWrite(key client.ObjectKey) (store.PendingWrite, bool) {
	for _, entry := range s.read {
		if w, ok := entry.Inspected().PendingWrite(key); ok {
			return w, true
		}
	}
	return store.PendingWrite{}, false
}

func infoOf(obj *metav1.PartialObjectMetadata) objectInfo {
	info := objectInfo{
		Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID), ResourceVersion: obj.ResourceVersion, Labels: obj.Labels,
	}
	if !obj.CreationTimestamp.IsZero() {
		info.Created = &obj.CreationTimestamp.Time
	}
	if obj.DeletionTimestamp != nil {
		info.Deleting = &obj.DeletionTimestamp.Time
	}
	if info.MoreLabels = max(0, len(obj.Labels)-maxLabels); info.MoreLabels > 0 {
		info.Labels = map[string]string{}
		for _, key := range slices.Sorted(maps.Keys(obj.Labels))[:maxLabels] {
			info.Labels[key] = obj.Labels[key]
		}
	}
	return info
}

// plans are those of reader.Plan, the dearest last.
var plans = []string{"key", "index", "all", "scan"}

// explain says how a list would be answered.
func (h *handler) explain(r *http.Request) (explanation, error) {
	s, err := h.selected(r)
	if err != nil {
		return explanation{}, err
	}
	e := explanation{Whole: true, Scopes: len(s.readers)}
	e.By = plans[0]
	for _, from := range s.readers {
		plan, err := from.Plan(&s.options)
		if err != nil {
			return explanation{}, h.unquoted(s.key, err)
		}
		if slices.Index(plans, plan.By) >= slices.Index(plans, e.By) { // the dearest
			e.By, e.Index, e.Missing = plan.By, plan.Index, plan.Missing
		}
		e.Candidates += plan.Candidates
		e.Objects += plan.Objects
		e.Whole = e.Whole && plan.Whole
	}
	e.Text = e.text()
	return e, nil
}

// text says it in a sentence or two.
func (e *explanation) text() string {
	text := map[string]string{
		"key":   "One object at most can match: it is looked up by its key.",
		"index": fmt.Sprintf("The index %q leads to %d of %d objects.", e.Index, e.Candidates, e.Objects),
		"all":   fmt.Sprintf("Nothing is selected: the list has %d of %d objects.", e.Candidates, e.Objects),
		"scan":  fmt.Sprintf("No index helps: %d of %d objects are looked at, in the order of their keys.", e.Candidates, e.Objects),
	}[e.By]
	switch {
	case e.By != "index":
	case e.Whole:
		text += " All of them match."
	default:
		text += " Each is compared with the selectors."
	}
	if len(e.Missing) > 0 {
		text += fmt.Sprintf(" If lists like this one go on, there will be an index %q.", strings.Join(e.Missing, `" or "`))
	}
	return text
}

// object sends one object as YAML.
func (h *handler) object(w http.ResponseWriter, r *http.Request) {
	text, err := h.yamlOf(r)
	if err != nil {
		fail(w, err)
		return
	}
	send(w, http.StatusOK, "application/yaml; charset=utf-8", text)
}

func (h *handler) yamlOf(r *http.Request) ([]byte, error) {
	key := client.ObjectKey{Namespace: r.URL.Query().Get("namespace"), Name: r.URL.Query().Get("name")}
	if key.Name == "" {
		return nil, apierrors.NewBadRequest("name: it is missing; use ?namespace=NAMESPACE&name=NAME")
	}
	s, err := h.selected(r)
	if err != nil {
		return nil, err
	}
	if key.Namespace == "" && !s.readers[0].ClusterScoped() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("namespace: it is missing, and %s is namespaced", s.key.Kind))
	}
	s.options = client.ListOptions{Namespace: key.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name)}
	one := &metav1.List{} // a list of any type: the cache knows which one the objects have
	if err := s.readers[0].Look(r.Context(), one, &s.options, s.readers[1:]...); err != nil {
		return nil, h.unquoted(s.key, err)
	}
	if len(one.Items) == 0 {
		return nil, notFound("the cache holds no %s %s", s.key.Kind, key)
	}
	text, err := h.render(s.found, one.Items[0].Object)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot show %s %s: %w", s.key.Kind, key, h.unquoted(s.key, err)))
	}
	return bound(append(h.remarks(s, key), text...)), nil
}

// render returns an object as YAML, without managedFields.
func (h *handler) render(f found, obj any) ([]byte, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // large numbers stay what they are
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	if h.hides(f.key) {
		content = redacted(content)
	}
	return yaml.Marshal(content)
}

// remarks returns comments about an object.
func (h *handler) remarks(s selection, key client.ObjectKey) (text []byte) {
	if h.hides(s.key) {
		text = append(text, "# Values of Secrets are hidden.\n"...)
	}
	if w, ok := s.ownWrite(key); ok {
		text = fmt.Appendf(text, "# A write of this program lies over it (%s at resourceVersion %d): reads do not show what follows.\n", w.Outcome, w.Revision)
	}
	return text
}

// bound cuts a text that is too long, behind a line, and says so.
func bound(text []byte) []byte {
	if len(text) <= maxYAML {
		return text
	}
	note := fmt.Sprintf("# Cut: the whole text has %d bytes.\n", len(text))
	text = text[:maxYAML-len(note)]
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		text = text[:end+1]
	}
	return append(text, note...)
}
