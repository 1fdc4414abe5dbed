// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

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

// Show returns the columns of a kind: their names, separated by commas, and the cells of an object in the same order. Name
// comes first by itself, unless it is among the names. A + before a name shows it in wide output only. A # behind a name
// stands for whole numbers, a ? for true or false, an @ for names. The last cell may have no column.
func Show[T runtime.Object](names string, cells func(obj T) []any) columns {
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
		o := MustBe[T](obj)
		if !leadingName {
			return cells(o)
		}
		return append([]any{NameOf(obj)}, cells(o)...)
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

// TableConvertor returns the row's convertor.
func (k *Kind) TableConvertor() rest.TableConvertor {
	if k.Table.cells == nil {
		return rest.NewDefaultTableConvertor(k.GroupResource())
	}
	return k.Table
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

// NameOf returns metadata.name.
func NameOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetName()
}

// AgeOf shows how long ago the object was created.
func AgeOf(obj metav1.Object) string { return Since(obj.GetCreationTimestamp().Time) }

// Since shows how long ago t was.
func Since(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t))
}

// OrNone shows an empty value as kubectl does.
func OrNone(s string) string { return Or(s, "<none>") }

// Or returns s, or instead if it is empty.
func Or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}

// Value shows an optional string. Cells must be plain JSON values.
func Value[T ~string](p *T, unset string) string {
	if p == nil {
		return unset
	}
	return string(*p)
}

// SomeOf joins at most three items and says how many more there are.
func SomeOf(items []string, more func(n int) string) string {
	const shown = 3
	if len(items) <= shown {
		return strings.Join(items, ",")
	}
	return strings.Join(items[:shown], ",") + more(len(items)-shown)
}

// ContainersAndImages lists both in two cells.
func ContainersAndImages(spec *corev1.PodSpec) []any {
	var names, images []string
	for i := range spec.Containers {
		names = append(names, spec.Containers[i].Name)
		images = append(images, spec.Containers[i].Image)
	}
	return []any{strings.Join(names, ","), strings.Join(images, ",")}
}

// ShortModes abbreviates access modes, in a fixed order.
func ShortModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			short = append(short, m.short)
		}
	}
	return strings.Join(short, ",")
}
