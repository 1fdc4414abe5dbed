// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

var errExpired = apierrors.NewResourceExpired("the watcher was too slow: the events that come next are not kept any more")

// Failed returns a watch that ends with an error. An API server sends the error as an event.
func Failed(err error) watch.Interface {
	result := make(chan watch.Event, 1)
	result <- errorEvent(err)
	close(result)
	return watch.NewProxyWatcher(result)
}

// Ended returns a watch that has ended.
func Ended() watch.Interface {
	result := make(chan watch.Event)
	close(result)
	return watch.NewProxyWatcher(result)
}

func errorEvent(err error) watch.Event {
	var status apierrors.APIStatus
	var object runtime.Object
	switch {
	case errors.As(err, &object):
	case errors.As(err, &status):
		s := status.Status()
		object = &s
	default:
		object = &metav1.Status{
			Status:  metav1.StatusFailure,
			Message: err.Error(),
			Reason:  metav1.StatusReasonInternalError,
			Code:    http.StatusInternalServerError,
		}
	}
	return watch.Event{Type: watch.Error, Object: object}
}
