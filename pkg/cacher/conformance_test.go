// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	"github.com/tarn-dev/tarn/internal/variable"
)

// conformance is one of upstream's tests of storages, with the set-up of upstream's own
// cacher_test.go.
type conformance struct {
	name    string
	options []option
	test    func(ctx context.Context, t *testing.T, f *fixture)
}

// conformances are tests with the same feature gates.
type conformances struct {
	name   string
	before func(t *testing.T)
	alone  bool // one after the other
	tests  []conformance
}

// TestConformance runs upstream's tests of storages on our Cacher, and on what it is compared
// with: upstream's Cacher and etcd3 without a cache. They wait more than they compute, so many run at a time.
func TestConformance(t *testing.T) {
	for n, same := range conformanceTests() {
		t.Run(same.name, func(t *testing.T) {
			if same.before != nil {
				same.before(t)
			}
			for _, i := range implementations() {
				for _, c := range conformanceTests()[n].tests { // each has objects of its own
					t.Run(i.name+"/"+c.name, func(t *testing.T) {
						if i.name != "tarn" {
							variable.SkipUnderDetector(t, "it makes upstream's code miss the deadlines of upstream's tests")
						}
						if !same.alone {
							t.Parallel()
						}
						c.test(t.Context(), t, run(t, i, c.options...))
					})
				}
			}
		})
	}
}

func conformanceTests() []conformances {
	return append(malformedTests(),
		listTests(true), listTests(false), stats(true), stats(false),
		conformances{name: "Alone", alone: true, tests: hastyTests()},
		conformances{name: "Default", tests: slices.Concat(writeTests(), pageTests(), watchTests())},
	)
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
	}
}

func stats(sized bool) conformances {
	return conformances{
		name:   fmt.Sprintf("SizeBasedListCostEstimate=%v", sized),
		before: gate(features.SizeBasedListCostEstimate, sized),
		tests: []conformance{{name: "Stats", test: func(ctx context.Context, t *testing.T, f *fixture) {
			if !f.implementation.cached && sized { // nobody else tells etcd3 the keys
				if err := f.EnableResourceSizeEstimation(f.keys); err != nil {
					t.Fatal(err)
				}
			}
			storagetesting.RunTestStats(ctx, t, f, exampleCodec(), identity.NewEncryptCheckTransformer(), sized)
		}}},
	}
}

// malformedTests delete objects that cannot be read.
func malformedTests() []conformances {
	unsafe := gate(features.AllowUnsafeMalformedObjectDeletion, true)
	undecodable := func(t *testing.T) {
		unsafe(t)
		etcd3.TestOnlySetFatalOnDecodeError(t, false)
	}
	missing, transformer, codec := newFailingTransformer(), newFailingTransformer(), &failingCodec{Codec: exampleCodec()}
	return []conformances{
		{name: "AllowUnsafeMalformedObjectDeletion", before: unsafe, alone: true, tests: []conformance{
			with("DeleteWithConflictAndMissingExpectedTransformOrDecodeError", func(ctx context.Context, t *testing.T, s storage.Interface) {
				storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, s, missing.fail.Store)
			}, withTransformer(missing)),
			with("DeleteWithConflictAndExpectedTransformError", func(ctx context.Context, t *testing.T, s storage.Interface) {
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s, transformer.fail.Store)
			}, withTransformer(transformer)),
			plain("DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError", func(ctx context.Context, t *testing.T, s storage.Interface) {
				storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, s)
			}),
		}},
		{name: "NotFatalOnDecodeError", before: undecodable, alone: true, tests: []conformance{
			with("DeleteWithConflictAndExpectedDecodeError", func(ctx context.Context, t *testing.T, s storage.Interface) {
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s, codec.fail.Store)
			}, withCodec(codec)),
		}},
	}
}

// listTests run with and without states of older revisions.
func listTests(snapshots bool) conformances {
	tests := []conformance{
		{name: "List", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestList(ctx, t, f, f.compact, f.implementation.cached, f.recorder())
		}},
		{name: "ConsistentList", test: func(ctx context.Context, t *testing.T, f *fixture) {
			cached := f.implementation.cached
			storagetesting.RunTestConsistentList(ctx, t, f, f.increase, cached, true, cached && snapshots)
		}},
		{name: "GetListNonRecursive", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, f.increase, f)
		}},
	}
	if snapshots {
		tests = append(tests, conformance{name: "CompactRevision", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunTestCompactRevision(ctx, t, f, f.increase, f.compact)
		}})
	}
	return conformances{name: fmt.Sprintf("ListFromCacheSnapshot=%v", snapshots), before: gate(features.ListFromCacheSnapshot, snapshots), tests: tests}
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
		plain("SendInitialEventsBackwardCompatibility", storagetesting.RunSendInitialEventsBackwardCompatibility),
	}
}

// hastyTests set the feature gate WatchList, or have deadlines: 150 ms for an event, a second for which an object lives, three for
// a hundred writes.
func hastyTests() []conformance {
	return []conformance{
		plain("Get", storagetesting.RunTestGet),
		{name: "WatchBookmarksWithCorrectResourceVersion", test: func(ctx context.Context, t *testing.T, f *fixture) {
			if !f.implementation.cached {
				t.Skip("etcd3 sends no bookmarks by itself")
			}
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, f)
		}},
		{name: "WatchSemantics", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunWatchSemantics(ctx, t, &shown{fixture: f})
		}},
		{name: "WatchSemanticInitialEventsExtended", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, &shown{fixture: f})
		}},
		{name: "WatchListMatchSingle", test: func(ctx context.Context, t *testing.T, f *fixture) {
			storagetesting.RunWatchListMatchSingle(ctx, t, &shown{fixture: f})
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
