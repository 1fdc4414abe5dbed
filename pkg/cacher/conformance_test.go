// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// conformance is one of upstream's tests of storages, with the set-up of upstream's own
// cacher_test.go.
type conformance struct {
	name    string
	options []option
	before  func(t *testing.T)
	test    func(ctx context.Context, t *testing.T, f *fixture)
}

// TestConformance runs upstream's tests of storages on our Cacher, and on what it is compared
// with: upstream's Cacher and etcd3 without a cache.
func TestConformance(t *testing.T) {
	for _, i := range implementations() {
		t.Run(i.name, func(t *testing.T) {
			if detector && i.name != "tarn" {
				t.Skip("the race detector is for our code: it makes upstream's miss the deadlines of upstream's tests")
			}
			for _, c := range conformanceTests() {
				t.Run(c.name, func(t *testing.T) {
					if c.before != nil {
						c.before(t)
					}
					c.test(t.Context(), t, run(t, i, c.options...))
				})
			}
		})
	}
}

func conformanceTests() (tests []conformance) {
	tests = append(tests, writeTests()...)
	tests = append(tests, malformedTests()...)
	for _, snapshots := range []bool{true, false} {
		tests = append(tests, listTests(snapshots)...)
	}
	tests = append(tests, pageTests()...)
	return append(tests, watchTests()...)
}

// gate sets a feature gate while a test runs.
func gate(name featuregate.Feature, on bool) func(*testing.T) {
	return func(t *testing.T) {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, name, on)
	}
}

// plain is a test that needs nothing but a storage.
func plain(name string, test func(context.Context, *testing.T, storage.Interface)) conformance {
	return with(name, test)
}

// with is a test that needs a set-up.
func with(name string, test func(context.Context, *testing.T, storage.Interface), options ...option) conformance {
	return conformance{name: name, options: options, test: func(ctx context.Context, t *testing.T, f *fixture) { test(ctx, t, f) }}
}

func writeTests() []conformance {
	// The tests of etcd3 check the contents of etcd.
	noValidation := func(context.Context, *testing.T, string) {}
	return []conformance{
		{name: "Create", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCreate(ctx, t, f, noValidation)
		}},
		plain("CreateWithTTL", storagetesting.RunTestCreateWithTTL),
		plain("CreateWithKeyExist", storagetesting.RunTestCreateWithKeyExist),
		plain("Get", storagetesting.RunTestGet),
		plain("UnconditionalDelete", storagetesting.RunTestUnconditionalDelete),
		plain("ConditionalDelete", storagetesting.RunTestConditionalDelete),
		plain("DeleteWithSuggestion", storagetesting.RunTestDeleteWithSuggestion),
		plain("DeleteWithSuggestionAndConflict", storagetesting.RunTestDeleteWithSuggestionAndConflict),
		plain("DeleteWithSuggestionOfDeletedObject", storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
		plain("ValidateDeletionWithSuggestion", storagetesting.RunTestValidateDeletionWithSuggestion),
		plain("ValidateDeletionWithOnlySuggestionValid", storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
		plain("DeleteWithConflict", storagetesting.RunTestDeleteWithConflict),
		plain("PreconditionalDeleteWithSuggestion", storagetesting.RunTestPreconditionalDeleteWithSuggestion),
		plain("PreconditionalDeleteWithSuggestionPass", storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		plain("GuaranteedUpdateWithTTL", storagetesting.RunTestGuaranteedUpdateWithTTL),
		with("GuaranteedUpdateWithConflict", storagetesting.RunTestGuaranteedUpdateWithConflict, foreignKeys),
		plain("GuaranteedUpdateWithSuggestionAndConflict", storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		with("KeySchema", storagetesting.RunTestKeySchema, foreignKeys),
		stats(true), stats(false),
	}
}

func stats(sized bool) conformance {
	return conformance{
		name:   fmt.Sprintf("Stats/SizeBasedListCostEstimate=%v", sized),
		before: gate(features.SizeBasedListCostEstimate, sized),
		test: func(ctx context.Context, t *testing.T, f *fixture) {
			if !f.implementation.cached && sized { // nobody else tells etcd3 the keys
				if err := f.EnableResourceSizeEstimation(f.keys); err != nil {
					t.Fatal(err)
				}
			}
			storagetesting.RunTestStats(ctx, t, f, exampleCodec(), identity.NewEncryptCheckTransformer(), sized)
		},
	}
}

// malformedTests delete objects that cannot be read.
func malformedTests() []conformance {
	unsafe := gate(features.AllowUnsafeMalformedObjectDeletion, true)
	undecodable := func(t *testing.T) {
		unsafe(t)
		etcd3.TestOnlySetFatalOnDecodeError(t, false)
	}
	missing, transformer, codec := newFailingTransformer(), newFailingTransformer(), &failingCodec{Codec: exampleCodec()}
	return []conformance{
		{
			name: "DeleteWithConflictAndMissingExpectedTransformOrDecodeError", before: unsafe, options: []option{withTransformer(missing)},
			test: func(ctx context.Context, t *testing.T, f *fixture) {
				storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, f, missing.fail.Store)
			},
		},
		{
			name: "DeleteWithConflictAndExpectedTransformError", before: unsafe, options: []option{withTransformer(transformer)},
			test: func(ctx context.Context, t *testing.T, f *fixture) {
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, f, transformer.fail.Store)
			},
		},
		{
			name: "DeleteWithConflictAndExpectedDecodeError", before: undecodable, options: []option{withCodec(codec)},
			test: func(ctx context.Context, t *testing.T, f *fixture) {
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, f, codec.fail.Store)
			},
		},
		{
			name: "DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError", before: unsafe,
			test: func(ctx context.Context, t *testing.T, f *fixture) {
				storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, f)
			},
		},
	}
}

// listTests run with and without states of older revisions.
func listTests(snapshots bool) []conformance {
	before := gate(features.ListFromCacheSnapshot, snapshots)
	name := func(of string) string { return fmt.Sprintf("%s/ListFromCacheSnapshot=%v", of, snapshots) }
	tests := []conformance{
		{name: name("List"), before: before, test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestList(ctx, t, f, f.compact, f.implementation.cached, f.recorder())
		}},
		{name: name("ConsistentList"), before: before, test: func(ctx context.Context, t *testing.T, f *fixture) {
			cached := f.implementation.cached
			storagetesting.RunTestConsistentList(ctx, t, f, f.increase, cached, true, cached && snapshots)
		}},
		{name: name("GetListNonRecursive"), before: before, test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, f.increase, f)
		}},
	}
	if snapshots {
		tests = append(tests, conformance{name: "CompactRevision", before: before, test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCompactRevision(ctx, t, f, f.increase, f.compact)
		}})
	}
	return tests
}

func pageTests() []conformance {
	// How often etcd is asked is for the tests of etcd3 to count.
	noCalls := func(*testing.T, uint64, uint64) {}
	return []conformance{
		plain("ListPaging", storagetesting.RunTestListPaging),
		plain("GetListRecursivePrefix", storagetesting.RunTestGetListRecursivePrefix),
		{name: "ListContinuation", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListContinuation(ctx, t, f, noCalls)
		}},
		{name: "ListPaginationRareObject", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, f, noCalls)
		}},
		{name: "ListContinuationWithFilter", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, f, noCalls)
		}},
		with("NamespaceScopedList", storagetesting.RunTestNamespaceScopedList, indexed),
	}
}

func watchTests() []conformance {
	return []conformance{
		plain("Watch", storagetesting.RunTestWatch),
		{name: "WatchFromZero", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchFromZero(ctx, t, f, f.restart)
		}},
		plain("DeleteTriggerWatch", storagetesting.RunTestDeleteTriggerWatch),
		plain("WatchFromNonZero", storagetesting.RunTestWatchFromNonZero),
		plain("DelayedWatchDelivery", storagetesting.RunTestDelayedWatchDelivery),
		plain("WatchContextCancel", storagetesting.RunTestWatchContextCancel),
		plain("WatcherTimeout", storagetesting.RunTestWatcherTimeout),
		plain("WatchDeleteEventObjectHaveLatestRV", storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
		plain("WatchInitializationSignal", storagetesting.RunTestWatchInitializationSignal),
		with("ClusterScopedWatch", storagetesting.RunTestClusterScopedWatch, clusterScoped, indexed),
		with("NamespaceScopedWatch", storagetesting.RunTestNamespaceScopedWatch, indexed),
		{name: "WatchDispatchBookmarkEvents", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, f, f.implementation.cached)
		}},
		{name: "WatchBookmarksWithCorrectResourceVersion", test: func(ctx context.Context, t *testing.T, f *fixture) {
			if !f.implementation.cached {
				t.Skip("etcd3 sends no bookmarks by itself")
			}
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, f)
		}},
		plain("SendInitialEventsBackwardCompatibility", storagetesting.RunSendInitialEventsBackwardCompatibility),
		{name: "WatchSemantics", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunWatchSemantics(ctx, t, &caughtUp{f})
		}},
		{name: "WatchSemanticInitialEventsExtended", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, &caughtUp{f})
		}},
		{name: "WatchListMatchSingle", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunWatchListMatchSingle(ctx, t, &caughtUp{f})
		}},
	}
}

// failingTransformer fails on demand.
type failingTransformer struct {
	value.Transformer
	fail   atomic.Bool
	failed atomic.Int32 // how often
}

func newFailingTransformer() *failingTransformer {
	return &failingTransformer{Transformer: identity.NewEncryptCheckTransformer()}
}

var errSynthetic = errors.New("synthetic error")

func (f *failingTransformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if f.fail.Load() {
		f.failed.Add(1)
		return nil, false, errSynthetic
	}
	return f.Transformer.TransformFromStorage(ctx, data, dataCtx)
}

// failingCodec fails on demand.
type failingCodec struct {
	runtime.Codec
	fail atomic.Bool
}

func (f *failingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if f.fail.Load() {
		return nil, nil, errSynthetic
	}
	return f.Codec.Decode(data, defaults, into)
}
