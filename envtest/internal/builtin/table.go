// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"
)

// columns is what a kind shows as a Table, which is how kubectl prints. The zero value shows name and creation time.
type columns struct {
	definitions []metav1.TableColumnDefinition
	// cells returns one value for each definition, as plain JSON values whose numbers are int64.
	cells func(obj runtime.Object) []any
}

// show returns the columns of a kind: their names, separated by commas, and the cells of an object in the same order. Name
// comes first by itself, unless it is among the names. A name that begins with + is shown in wide output only; one that
// ends with # is a whole number, with ? true or false, and with @ a name. The last cell may have no column.
func show[T runtime.Object](names string, cells func(obj T) []any) columns {
	var c columns
	for _, name := range strings.Split(names, ",") {
		c.definitions = append(c.definitions, columnDefinition(name))
	}
	isName := func(def metav1.TableColumnDefinition) bool { return def.Name == "Name" }
	leadingName := !slices.ContainsFunc(c.definitions, isName)
	if leadingName {
		c.definitions = slices.Insert(c.definitions, 0, columnDefinition("Name"))
	}
	c.cells = func(obj runtime.Object) []any {
		o := mustBe[T](obj)
		if !leadingName {
			return cells(o)
		}
		return append([]any{nameOf(obj)}, cells(o)...)
	}
	return c
}

// columnDefinition reads one name in the notation of show.
func columnDefinition(name string) metav1.TableColumnDefinition {
	def := metav1.TableColumnDefinition{Type: "string"}
	name, wide := strings.CutPrefix(name, "+")
	if wide {
		def.Priority = 1
	}
	name, number := strings.CutSuffix(name, "#")
	if number {
		def.Type = "integer"
	}
	name, flag := strings.CutSuffix(name, "?")
	if flag {
		def.Type = "boolean"
	}
	name, reference := strings.CutSuffix(name, "@")
	if reference || name == "Name" {
		def.Format = "name"
	}
	def.Name, def.Description = name, described[name]
	return def
}

// described are the descriptions of the columns that most kinds have.
var described = map[string]string{
	"Name": metav1.ObjectMeta{}.SwaggerDoc()["name"],
	"Age":  metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
}

// tableConvertor returns the row's convertor.
func (k *kind) tableConvertor() rest.TableConvertor {
	if k.table.cells == nil {
		return rest.NewDefaultTableConvertor(k.groupResource())
	}
	return k.table
}

// ConvertToTable shows an object or a list.
func (c columns) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	rows, err := metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, _, _ string) ([]any, error) {
		return c.cells(obj), nil
	})
	if err != nil {
		return nil, err
	}
	table := &metav1.Table{Rows: rows}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = c.definitions
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		table.ResourceVersion = m.GetResourceVersion()
	}
	return table, nil
}

// nameOf returns metadata.name.
func nameOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetName()
}

// ageOf shows how long ago the object was created.
func ageOf(obj metav1.Object) string { return since(obj.GetCreationTimestamp().Time) }

// since shows how long ago t was.
func since(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t))
}

// orNone shows an empty value as kubectl does.
func orNone(s string) string { return or(s, "<none>") }

// or returns s, or instead if it is empty.
func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}

// value shows an optional string. Cells must be plain JSON values.
func value[T ~string](p *T, unset string) string {
	if p == nil {
		return unset
	}
	return string(*p)
}

// someOf joins at most three items and says how many more there are.
func someOf(items []string, more func(n int) string) string {
	const shown = 3
	if len(items) <= shown {
		return strings.Join(items, ",")
	}
	return strings.Join(items[:shown], ",") + more(len(items)-shown)
}

// containersAndImages lists both in two cells.
func containersAndImages(spec *corev1.PodSpec) []any {
	var names, images []string
	for i := range spec.Containers {
		names = append(names, spec.Containers[i].Name)
		images = append(images, spec.Containers[i].Image)
	}
	return []any{strings.Join(names, ","), strings.Join(images, ",")}
}
