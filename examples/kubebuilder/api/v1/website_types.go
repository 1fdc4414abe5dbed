// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WebsiteSpec is what a user wants of a Website.
type WebsiteSpec struct {
	// image serves the site. It needs a tag. The default is nginx:1.29.
	// +optional
	Image string `json:"image,omitempty"`

	// replicas is the number of Pods that serve the site.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
}

// WebsiteStatus is what the controller has seen.
type WebsiteStatus struct {
	// availableReplicas is the number of Pods that can serve the site now.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status

// Website is a site that a Deployment of the same name serves.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what a user wants.
	Spec WebsiteSpec `json:"spec"`

	// status is what the controller has seen.
	// +optional
	Status WebsiteStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// WebsiteList is a list of Websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}
