// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Events are one store with two faces: v1 of the core group and events.k8s.io/v1. They are stored and admitted in the core
// form; the scheme converts them for readers and writers of the other one.

// EventLifetime is how long an event is kept, in seconds: one hour, as kube-apiserver's default.
const EventLifetime = 60 * 60

// RegisterInternalEvents makes the core form the internal version of the events.k8s.io group.
func RegisterInternalEvents(scheme *runtime.Scheme) {
	// The core version of each type must be known before the internal ones: errors and admission use the first name
	// of a type.
	for _, group := range []string{corev1.GroupName, eventsv1.GroupName} {
		internal := schema.GroupVersion{Group: group, Version: runtime.APIVersionInternal}
		scheme.AddKnownTypeWithName(internal.WithKind("Event"), &corev1.Event{})
		scheme.AddKnownTypeWithName(internal.WithKind("EventList"), &corev1.EventList{})
	}
}

// AddEventConversions registers the conversions between the two forms, and the field labels of the second one.
func AddEventConversions(scheme *runtime.Scheme) error {
	convert := []struct {
		from, to any
		do       conversion.ConversionFunc
	}{
		{(*corev1.Event)(nil), (*eventsv1.Event)(nil), func(from, to any, _ conversion.Scope) error {
			toEventsV1(from.(*corev1.Event), to.(*eventsv1.Event))
			return nil
		}},
		{(*eventsv1.Event)(nil), (*corev1.Event)(nil), func(from, to any, _ conversion.Scope) error {
			fromEventsV1(from.(*eventsv1.Event), to.(*corev1.Event))
			return nil
		}},
		{(*corev1.EventList)(nil), (*eventsv1.EventList)(nil), func(from, to any, _ conversion.Scope) error {
			in, out := from.(*corev1.EventList), to.(*eventsv1.EventList)
			out.ListMeta, out.Items = in.ListMeta, make([]eventsv1.Event, len(in.Items))
			for i := range in.Items {
				toEventsV1(&in.Items[i], &out.Items[i])
			}
			return nil
		}},
		{(*eventsv1.EventList)(nil), (*corev1.EventList)(nil), func(from, to any, _ conversion.Scope) error {
			in, out := from.(*eventsv1.EventList), to.(*corev1.EventList)
			out.ListMeta, out.Items = in.ListMeta, make([]corev1.Event, len(in.Items))
			for i := range in.Items {
				fromEventsV1(&in.Items[i], &out.Items[i])
			}
			return nil
		}},
	}
	for _, c := range convert {
		if err := scheme.AddConversionFunc(c.from, c.to, c.do); err != nil {
			return err
		}
	}
	return scheme.AddFieldLabelConversionFunc(eventsv1.SchemeGroupVersion.WithKind("Event"), eventsV1Label)
}

// toEventsV1 converts to the form of events.k8s.io. Both share memory afterwards.
func toEventsV1(in *corev1.Event, out *eventsv1.Event) {
	*out = eventsv1.Event{
		ObjectMeta:               in.ObjectMeta,
		EventTime:                in.EventTime,
		ReportingController:      in.ReportingController,
		ReportingInstance:        in.ReportingInstance,
		Action:                   in.Action,
		Reason:                   in.Reason,
		Regarding:                in.InvolvedObject,
		Related:                  in.Related,
		Note:                     in.Message,
		Type:                     in.Type,
		DeprecatedSource:         in.Source,
		DeprecatedFirstTimestamp: in.FirstTimestamp,
		DeprecatedLastTimestamp:  in.LastTimestamp,
		DeprecatedCount:          in.Count,
	}
	if in.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}

// fromEventsV1 converts to the core form. Both share memory afterwards.
func fromEventsV1(in *eventsv1.Event, out *corev1.Event) {
	*out = corev1.Event{
		ObjectMeta:          in.ObjectMeta,
		InvolvedObject:      in.Regarding,
		Reason:              in.Reason,
		Message:             in.Note,
		Source:              in.DeprecatedSource,
		FirstTimestamp:      in.DeprecatedFirstTimestamp,
		LastTimestamp:       in.DeprecatedLastTimestamp,
		Count:               in.DeprecatedCount,
		Type:                in.Type,
		EventTime:           in.EventTime,
		Action:              in.Action,
		Related:             in.Related,
		ReportingController: in.ReportingController,
		ReportingInstance:   in.ReportingInstance,
	}
	if in.Series != nil {
		out.Series = &corev1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}

// EventFields sets the selectable fields under their core names.
func EventFields(e *corev1.Event, set fields.Set) {
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	set["involvedObject.kind"] = e.InvolvedObject.Kind
	set["involvedObject.namespace"] = e.InvolvedObject.Namespace
	set["involvedObject.name"] = e.InvolvedObject.Name
	set["involvedObject.uid"] = string(e.InvolvedObject.UID)
	set["involvedObject.apiVersion"] = e.InvolvedObject.APIVersion
	set["involvedObject.resourceVersion"] = e.InvolvedObject.ResourceVersion
	set["involvedObject.fieldPath"] = e.InvolvedObject.FieldPath
	set["reason"] = e.Reason
	set["reportingComponent"] = e.ReportingController
	set["source"] = source
	set["type"] = e.Type
}

// eventsV1Label translates a field label of events.k8s.io to its core name.
func eventsV1Label(label, value string) (string, string, error) {
	switch label {
	case "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
		"regarding.resourceVersion", "regarding.fieldPath":
		return "involvedObject" + label[len("regarding"):], value, nil
	case "reportingController":
		return "reportingComponent", value, nil
	case "reason", "type", "metadata.name", "metadata.namespace":
		return label, value, nil
	default:
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
}
