// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/store"
)

// getFreshness returns what the options of a Get ask for. Their Raw has the meaning that it has for
// an API server: not older than its ResourceVersion.
func getFreshness(o *client.GetOptions) (store.Freshness, error) {
	if o.Raw == nil || o.Raw.ResourceVersion == "" {
		return store.Freshness{Watched: o.DisableReadYourWritesConsistency}, nil
	}
	revision, err := wanted(o.Raw.ResourceVersion)
	return store.Freshness{Revision: revision, Watched: o.DisableReadYourWritesConsistency}, err
}

// listFreshness returns what the options of a List ask for.
func listFreshness(o *client.ListOptions) (store.Freshness, error) {
	if o.Raw == nil || o.Raw.ResourceVersion == "" || o.Raw.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		return store.Freshness{Watched: o.DisableReadYourWritesConsistency}, nil
	}
	if o.Continue != "" {
		return store.Freshness{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue: the pages of a list are of one state")
	}
	revision, err := wanted(o.Raw.ResourceVersion)
	return store.Freshness{Revision: revision, Watched: o.DisableReadYourWritesConsistency}, err
}

func wanted(resourceVersion string) (uint64, error) {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("resource version %q is no number: a cache cannot say whether it is older", resourceVersion))
	}
	return revision, nil
}
