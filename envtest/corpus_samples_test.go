// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

// corpusSamples are what the corpus asks about beside samples: kinds that can only be made, and the definitions of others.
func corpusSamples() []sample {
	access := `{"spec":{"user":"jane","resourceAttributes":{"namespace":"NAMESPACE","verb":"get","resource":"pods"}}}`
	self := `{"spec":{"resourceAttributes":{"namespace":"NAMESPACE","verb":"get","resource":"pods"}}}`
	return []sample{
		{resource: resource("authorization.k8s.io", "v1", "subjectaccessreviews"), kind: "SubjectAccessReview", cluster: true, content: access},
		{resource: resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews"), kind: "SelfSubjectAccessReview", cluster: true, content: self},
		{resource: resource("authorization.k8s.io", "v1", "localsubjectaccessreviews"), kind: "LocalSubjectAccessReview", content: access},
		{resource: resource("authentication.k8s.io", "v1", "tokenreviews"), kind: "TokenReview", cluster: true, content: `{"spec":{"token":"none"}}`},
	}
}
