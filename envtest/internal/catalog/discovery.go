// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"net/http"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// serveAggregated writes the document in the aggregated form that the request asks for.
func (c *Catalog) serveAggregated(w http.ResponseWriter, req *http.Request) {
	doc, err := c.current()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	mediaType, _, err := negotiation.NegotiateOutputMediaType(req, c.codecs, aggregated.DiscoveryEndpointRestrictions)
	if err != nil || mediaType.Convert == nil {
		http.Error(w, "ask for aggregated discovery with an Accept header", http.StatusNotAcceptable)
		return
	}
	list := doc.list // the writer sets its kind
	aggregated.ServeHTTPWithETag(&list, doc.etag, mediaType.Convert.GroupVersion(), c.codecs, w, req)
}

// serveGroups writes the names and versions of the groups, which is all that discovery was before it was aggregated.
func (c *Catalog) serveGroups(w http.ResponseWriter, req *http.Request) {
	doc, err := c.current()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list := &metav1.APIGroupList{Groups: make([]metav1.APIGroup, 0, len(doc.list.Items))}
	for _, item := range doc.list.Items {
		list.Groups = append(list.Groups, plainGroup(item))
	}
	responsewriters.WriteObjectNegotiated(c.plain, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{}, w, req,
		http.StatusOK, list, false)
}

// ServeGroup writes which versions a group has.
func (c *Catalog) ServeGroup(name string, w http.ResponseWriter, req *http.Request) {
	doc, err := c.current()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, item := range doc.list.Items {
		if item.Name == name {
			group := plainGroup(item)
			responsewriters.WriteObjectNegotiated(c.plain, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{},
				w, req, http.StatusOK, &group, false)
			return
		}
	}
	http.NotFound(w, req)
}

// plainGroup leaves out the resources of a group.
func plainGroup(item apidiscoveryv2.APIGroupDiscovery) metav1.APIGroup {
	group := metav1.APIGroup{Name: item.Name}
	for _, v := range item.Versions {
		gv := schema.GroupVersion{Group: item.Name, Version: v.Version}
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v.Version})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// catalogSource is the catalog as one of its sources sees it. It implements aggregated.ResourceManager.
type catalogSource struct {
	*Catalog
	source aggregated.Source
}

var _ aggregated.ResourceManager = catalogSource{}

// From returns the catalog as a source fills it.
func (c *Catalog) From(source aggregated.Source) aggregated.ResourceManager {
	return catalogSource{c, source}
}

// AddGroupVersion implements aggregated.ResourceManager.
func (s catalogSource) AddGroupVersion(group string, v apidiscoveryv2.APIVersionDiscovery) {
	s.set(s.source, group, v)
}

// SetGroupVersionPriority implements aggregated.ResourceManager.
func (s catalogSource) SetGroupVersionPriority(gv metav1.GroupVersion, group, version int) {
	s.prioritize(s.source, gv, Priority{group, version})
}

// RemoveGroup implements aggregated.ResourceManager.
func (s catalogSource) RemoveGroup(group string) {
	s.remove(func(key catalogKey) bool { return key.source == s.source && key.Group == group })
}

// RemoveGroupVersion implements aggregated.ResourceManager.
func (s catalogSource) RemoveGroupVersion(gv metav1.GroupVersion) {
	s.remove(func(key catalogKey) bool { return key == catalogKey{s.source, gv} })
}

// SetGroups implements aggregated.ResourceManager.
func (s catalogSource) SetGroups(groups []apidiscoveryv2.APIGroupDiscovery) {
	s.remove(func(key catalogKey) bool { return key.source == s.source })
	for _, group := range groups {
		for _, v := range group.Versions {
			s.set(s.source, group.Name, v)
		}
	}
}

// WithSource implements aggregated.ResourceManager.
func (s catalogSource) WithSource(source aggregated.Source) aggregated.ResourceManager {
	return catalogSource{s.Catalog, source}
}

// AddInvalidationCallback implements aggregated.ResourceManager. The callback must not call the catalog.
func (s catalogSource) AddInvalidationCallback(callback func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callback = callback
}

// ServeHTTP implements http.Handler.
func (s catalogSource) ServeHTTP(w http.ResponseWriter, req *http.Request) { s.serveAggregated(w, req) }

// Install serves the catalog at /apis. The CRD server switches that path off, because on a real server an
// aggregator in front of it answers.
func (c *Catalog) Install(server *genericapiserver.GenericAPIServer) {
	manager := catalogSource{c, aggregated.AggregatorSource}
	handler := aggregated.WrapAggregatedDiscoveryToHandler(http.HandlerFunc(c.serveGroups), manager, manager)
	server.Handler.GoRestfulContainer.Add(handler.GenerateWebService("/apis", metav1.APIGroupList{}))
}
