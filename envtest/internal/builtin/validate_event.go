// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// The rules are those of kube-apiserver's pkg/apis/core/validation/events.go. The group events.k8s.io asks for more than the
// core group, of the same objects.

const (
	longestEventName = 128
	longestEventNote = 1024
)

// validateEvent looks at the group of the request.
func validateEvent(ctx context.Context, obj, was runtime.Object) field.ErrorList {
	event, old := mustBe[*corev1.Event](obj), optional[*corev1.Event](was)
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	modern := ok && info.APIGroup == eventsv1.GroupName
	var f faults
	f.eventPlace(event)
	if !event.EventTime.IsZero() {
		f.eventTexts(event, modern)
	}
	f.messages(validation.IsDNS1123Subdomain(event.Namespace), event.Namespace, field.NewPath("namespace"))
	switch {
	case !modern:
	case old == nil:
		f.add(apivalidation.ValidateObjectMeta(&event.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")))
		f.finalizers(event.Finalizers)
		f.eventSeries(event)
		f.newEvent(event)
	default:
		f.finalizers(event.Finalizers)
		f.keptEvent(event, old)
	}
	return f.list
}

// eventPlace checks that an event is where its object is. With a time of its own it may be elsewhere.
func (f *faults) eventPlace(event *corev1.Event) {
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
	f.invalid(wrong, field.NewPath("involvedObject", "namespace"), of, "does not match event.namespace")
}

func (f *faults) eventTexts(event *corev1.Event, modern bool) {
	controller := field.NewPath("reportingComponent")
	if modern {
		controller = field.NewPath("reportingController")
	}
	f.text(event.ReportingController, controller)
	f.messages(validation.IsQualifiedName(event.ReportingController), event.ReportingController, controller)
	for _, text := range []struct{ name, value string }{
		{"reportingInstance", event.ReportingInstance}, {"action", event.Action}, {"reason", event.Reason},
	} {
		f.text(text.value, field.NewPath(text.name))
		f.invalid(len(text.value) > longestEventName, field.NewPath(text.name), "", "can have at most 128 characters")
	}
	f.invalid(len(event.Message) > longestEventNote, field.NewPath("message"), "", "can have at most 1024 characters")
}

func (f *faults) eventSeries(event *corev1.Event) {
	if event.Series != nil {
		f.invalid(event.Series.Count < 2, field.NewPath("series.count"), "", "should be at least 2")
		f.need(!event.Series.LastObservedTime.IsZero(), field.NewPath("series.lastObservedTime"))
	}
}

func (f *faults) newEvent(event *corev1.Event) {
	const message = "needs to be unset"
	f.need(!event.EventTime.IsZero(), field.NewPath("eventTime"))
	f.invalid(event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning, field.NewPath("type"), "", "has invalid value: "+event.Type)
	f.invalid(!event.FirstTimestamp.IsZero(), field.NewPath("firstTimestamp"), "", message)
	f.invalid(!event.LastTimestamp.IsZero(), field.NewPath("lastTimestamp"), "", message)
	f.invalid(event.Count != 0, field.NewPath("count"), "", message)
	f.invalid(event.Source != (corev1.EventSource{}), field.NewPath("source"), "", message)
}

// keptEvent lets only the series change, and the metadata.
func (f *faults) keptEvent(event, old *corev1.Event) {
	if frozen(event.Series, old.Series, nil) != nil {
		f.eventSeries(event)
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
		f.add(frozen(kept.now, kept.was, field.NewPath(kept.name)))
	}
}

// finalizers wants the domain of whoever removes a finalizer in its name.
func (f *faults) finalizers(names []string) {
	for i, name := range names {
		standard := name == string(corev1.FinalizerKubernetes) || name == "orphan" || name == "foregroundDeletion"
		f.invalid(!standard && !strings.Contains(name, "/"), field.NewPath("metadata", "finalizers").Index(i), name,
			"name is neither a standard finalizer name nor is it fully qualified")
	}
}
