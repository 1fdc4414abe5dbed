// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// beyond is how many cells a kind has beyond its columns, as on a kube-apiserver.
var beyond = map[string]int{"IPAddress": 1}

func TestEveryTableFitsItsColumns(t *testing.T) {
	for _, k := range kinds() {
		obj := kind.NewFunc(Scheme(), k.GVK)()
		if rc, ok := obj.(*corev1.ReplicationController); ok {
			rc.Spec.Template = &corev1.PodTemplateSpec{} // validation asks for one
		}
		Scheme().Default(obj)
		list := kind.NewFunc(Scheme(), k.ListGVK())()
		if err := meta.SetList(list, []runtime.Object{obj, obj}); err != nil {
			t.Fatal(err)
		}
		for wanted, shown := range map[int]runtime.Object{1: obj, 2: list} {
			table, err := k.TableConvertor().ConvertToTable(context.Background(), shown, &metav1.TableOptions{})
			if err != nil {
				t.Fatalf("%s: %v", k.GVK, err)
			}
			if len(table.Rows) != wanted || len(table.Rows[0].Cells) != len(table.ColumnDefinitions)+beyond[k.GVK.Kind] {
				t.Errorf("%s: %d rows of %d cells under %d columns", k.GVK, len(table.Rows), len(table.Rows[0].Cells), len(table.ColumnDefinitions))
			}
			_ = table.DeepCopy() // panics if a cell is no JSON value
		}
	}
}

func TestTableWithoutHeaders(t *testing.T) {
	table, err := kindOf(t, &corev1.Pod{}).TableConvertor().ConvertToTable(context.Background(), &corev1.Pod{}, &metav1.TableOptions{NoHeaders: true})
	if err != nil || table.ColumnDefinitions != nil {
		t.Errorf("columns %v, %v", table.ColumnDefinitions, err)
	}
}
