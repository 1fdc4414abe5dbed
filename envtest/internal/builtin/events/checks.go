// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// The rules are those of kube-apiserver's pkg/apis/core/validation/events.go. The group events.k8s.io asks for more than the
// core group, of the same objects.

const (
	longestEventName = 128
	longestEventNote = 1024
)

// ValidateEvent looks at the group of the request.
func ValidateEvent(ctx context.Context, obj, was runtime.Object) field.ErrorList {
	event, old := kind.MustBe[*corev1.Event](obj), kind.Optional[*corev1.Event](was)
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	modern := ok && info.APIGroup == eventsv1.GroupName
	var f kind.Findings
	checkEventPlace(&f, event)
	if !event.EventTime.IsZero() {
		checkEventTexts(&f, event, modern)
	}
	f.Messages(validation.IsDNS1123Subdomain(event.Namespace), event.Namespace, field.NewPath("namespace"))
	switch {
	case !modern:
	case old == nil:
		f.Add(apivalidation.ValidateObjectMeta(&event.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")))
		f.Finalizers(event.Finalizers)
		checkEventSeries(&f, event)
		checkNewEvent(&f, event)
	default:
		f.Finalizers(event.Finalizers)
		checkKeptEvent(&f, event, old)
	}
	return f.List
}

// checkEventPlace checks that an event is where its object is. With a time of its own it may be elsewhere.
func checkEventPlace(f *kind.Findings, event *corev1.Event) {
	of := event.InvolvedObject.Namespace
	wrong := of != event.Namespace
	switch {
	case of == "" && event.EventTime.IsZero():
		wrong = event.Namespace != "" && event.Namespace != corev1.NamespaceDefault
	case of == "":
		wrong = event.Namespace != corev1.NamespaceDefault && event.Namespace != "kube-system"
	case !event.EventTime.IsZero():
		wrong = false
	}
	f.Invalid(wrong, field.NewPath("involvedObject", "namespace"), of, "does not match event.namespace")
}

func checkEventTexts(f *kind.Findings, event *corev1.Event, modern bool) {
	controller := field.NewPath("reportingComponent")
	if modern {
		controller = field.NewPath("reportingController")
	}
	f.Text(event.ReportingController, controller)
	f.Messages(validation.IsQualifiedName(event.ReportingController), event.ReportingController, controller)
	for _, text := range []struct{ name, value string }{
		{"reportingInstance", event.ReportingInstance}, {"action", event.Action}, {"reason", event.Reason},
	} {
		f.Text(text.value, field.NewPath(text.name))
		f.Invalid(len(text.value) > longestEventName, field.NewPath(text.name), "", "can have at most 128 characters")
	}
	f.Invalid(len(event.Message) > longestEventNote, field.NewPath("message"), "", "can have at most 1024 characters")
}

func checkEventSeries(f *kind.Findings, event *corev1.Event) {
	if event.Series != nil {
		f.Invalid(event.Series.Count < 2, field.NewPath("series.count"), "", "should be at least 2")
		f.Need(!event.Series.LastObservedTime.IsZero(), field.NewPath("series.lastObservedTime"))
	}
}

func checkNewEvent(f *kind.Findings, event *corev1.Event) {
	const message = "needs to be unset"
	f.Need(!event.EventTime.IsZero(), field.NewPath("eventTime"))
	f.Invalid(event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning, field.NewPath("type"), "", "has invalid value: "+event.Type)
	f.Invalid(!event.FirstTimestamp.IsZero(), field.NewPath("firstTimestamp"), "", message)
	f.Invalid(!event.LastTimestamp.IsZero(), field.NewPath("lastTimestamp"), "", message)
	f.Invalid(event.Count != 0, field.NewPath("count"), "", message)
	f.Invalid(event.Source != (corev1.EventSource{}), field.NewPath("source"), "", message)
}

// checkKeptEvent lets only the series change, and the metadata.
func checkKeptEvent(f *kind.Findings, event, old *corev1.Event) {
	if kind.Frozen(event.Series, old.Series, nil) != nil {
		checkEventSeries(f, event)
	}
	for _, kept := range []struct {
		name     string
		now, was any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject}, {"reason", event.Reason, old.Reason}, {"message", event.Message, old.Message},
		{"source", event.Source, old.Source}, {"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", event.LastTimestamp, old.LastTimestamp}, {"count", event.Count, old.Count}, {"type", event.Type, old.Type},
		{"eventTime", event.EventTime, old.EventTime}, {"action", event.Action, old.Action}, {"related", event.Related, old.Related},
		{"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		f.Add(kind.Frozen(kept.now, kept.was, field.NewPath(kept.name)))
	}
}
