// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddConnectParameters registers how query parameters become the options of the subresources that lead elsewhere.
func AddConnectParameters(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		addParameters(func(from *url.Values, to *corev1.PodLogOptions, s conversion.Scope) error {
			return firstError(
				read(from, "container", &to.Container, s, runtime.Convert_Slice_string_To_string),
				read(from, "follow", &to.Follow, s, runtime.Convert_Slice_string_To_bool),
				read(from, "previous", &to.Previous, s, runtime.Convert_Slice_string_To_bool),
				read(from, "sinceSeconds", &to.SinceSeconds, s, runtime.Convert_Slice_string_To_Pointer_int64),
				read(from, "sinceTime", &to.SinceTime, s, metav1.Convert_Slice_string_To_Pointer_v1_Time),
				read(from, "timestamps", &to.Timestamps, s, runtime.Convert_Slice_string_To_bool),
				read(from, "tailLines", &to.TailLines, s, runtime.Convert_Slice_string_To_Pointer_int64),
				read(from, "limitBytes", &to.LimitBytes, s, runtime.Convert_Slice_string_To_Pointer_int64),
				read(from, "insecureSkipTLSVerifyBackend", &to.InsecureSkipTLSVerifyBackend, s, runtime.Convert_Slice_string_To_bool),
				read(from, "stream", &to.Stream, s, toPointer),
			)
		}),
		addParameters(func(from *url.Values, to *corev1.PodExecOptions, s conversion.Scope) error {
			to.Command = (*from)["command"]
			return streams(from, &to.Stdin, &to.Stdout, &to.Stderr, &to.TTY, &to.Container, s)
		}),
		addParameters(func(from *url.Values, to *corev1.PodAttachOptions, s conversion.Scope) error {
			return streams(from, &to.Stdin, &to.Stdout, &to.Stderr, &to.TTY, &to.Container, s)
		}),
		addParameters(func(from *url.Values, to *corev1.PodPortForwardOptions, s conversion.Scope) error {
			return read(from, "ports", &to.Ports, s, metav1.Convert_Slice_string_To_Slice_int32)
		}),
		addParameters(func(from *url.Values, to *corev1.PodProxyOptions, s conversion.Scope) error {
			return read(from, "path", &to.Path, s, runtime.Convert_Slice_string_To_string)
		}),
		addParameters(func(from *url.Values, to *corev1.ServiceProxyOptions, s conversion.Scope) error {
			return read(from, "path", &to.Path, s, runtime.Convert_Slice_string_To_string)
		}),
		addParameters(func(from *url.Values, to *corev1.NodeProxyOptions, s conversion.Scope) error {
			return read(from, "path", &to.Path, s, runtime.Convert_Slice_string_To_string)
		}),
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

func addParameters[T any](convert func(*url.Values, *T, conversion.Scope) error) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		return scheme.AddConversionFunc((*url.Values)(nil), (*T)(nil), func(from, to any, s conversion.Scope) error {
			return convert(from.(*url.Values), to.(*T), s)
		})
	}
}

// read reads one parameter, if it is given.
func read[T any](from *url.Values, name string, to *T, s conversion.Scope, convert func(*[]string, *T, conversion.Scope) error) error {
	values, ok := (*from)[name]
	if !ok || len(values) == 0 {
		return nil
	}
	return convert(&values, to, s)
}

func toPointer(values *[]string, to **string, _ conversion.Scope) error {
	*to = &(*values)[0]
	return nil
}

// streams reads the parameters that exec and attach have in common.
func streams(from *url.Values, stdin, stdout, stderr, tty *bool, container *string, s conversion.Scope) error {
	return firstError(
		read(from, "stdin", stdin, s, runtime.Convert_Slice_string_To_bool),
		read(from, "stdout", stdout, s, runtime.Convert_Slice_string_To_bool),
		read(from, "stderr", stderr, s, runtime.Convert_Slice_string_To_bool),
		read(from, "tty", tty, s, runtime.Convert_Slice_string_To_bool),
		read(from, "container", container, s, runtime.Convert_Slice_string_To_string),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
