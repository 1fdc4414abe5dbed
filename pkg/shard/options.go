// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Options are what [New] needs. The times are those of leader election, with its defaults.
type Options struct {
	// Ring is the name of the ring. It is a label's value, and begins the names of the Leases.
	Ring string
	// Member is the name of this replica: hashing knows members by it, so a replica that comes back under its name gets its keys back.
	// It is the hostname by default, which is the name of the Pod.
	Member string
	// Key is the field that gives an object its key: metadata.namespace by default, which stands for the name of an object without one;
	// metadata.uid; or a label, such as metadata.labels['tenant']. All objects without the label share one key. A transform of the cache must
	// leave the field. The package says why a label or the UID is less safe. All members must have the same Key: change it while no replica
	// runs.
	Key string
	// Client reads and writes Leases in Namespace. It needs get, list, watch, create, update and delete.
	Client    coordinationclient.LeasesGetter
	Namespace string

	// LeaseDuration is how long a Lease must have been without a change before others take over what its member had: 15 seconds by
	// default, and in Leases a whole number of seconds, rounded up.
	LeaseDuration time.Duration
	// RenewDeadline is how long after its last renewal a member stops its work: 10 seconds by default. It must be
	// shorter than LeaseDuration by the time that cancelled work takes to stop, and by what clocks differ.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals: 2 seconds by default. A member has its Lease for as long before it joins.
	RetryPeriod time.Duration
	// DrainTimeout is how long the work on a key that leaves may go on before its context is cancelled: RenewDeadline by default.
	// The key leaves when the work has ended, however long that takes.
	DrainTimeout time.Duration

	// Logger is told of what goes wrong and is tried again. Default: controller-runtime's log, with the name tarn.shard.
	Logger logr.Logger
}

// complete returns the options with their defaults, or what is wrong with them.
func (o Options) complete() (*Options, error) {
	if o.Member == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("cannot name the member: %w", err)
		}
		o.Member = strings.ToLower(name)
	}
	o.Key = cmp.Or(o.Key, namespaceField)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, 15*time.Second)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, 10*time.Second)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, 2*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, o.RenewDeadline)
	if o.Logger.IsZero() {
		o.Logger = log.Log.WithName("tarn").WithName("shard")
	}
	var wrong []error
	if o.Client == nil || o.Namespace == "" {
		wrong = append(wrong, errors.New("options Client and Namespace are required"))
	}
	if o.Ring == "" {
		wrong = append(wrong, errors.New("option Ring is required"))
	}
	if label, isLabel := labelOf(o.Key); isLabel && len(utilvalidation.IsQualifiedName(label)) > 0 || !isLabel && o.Key != namespaceField && o.Key != uidField {
		wrong = append(wrong, fmt.Errorf("option Key %q: it must be %s, %s or a label, such as metadata.labels['tenant']", o.Key, namespaceField, uidField))
	}
	for _, text := range utilvalidation.IsValidLabelValue(o.Ring) {
		wrong = append(wrong, fmt.Errorf("option Ring %q: %s", o.Ring, text))
	}
	for _, text := range validation.NameIsDNSSubdomain(o.leaseName(), false) {
		wrong = append(wrong, fmt.Errorf("the Lease cannot be called %q: %s", o.leaseName(), text))
	}
	if o.RetryPeriod <= 0 || o.RenewDeadline < 2*o.RetryPeriod || o.LeaseDuration <= o.RenewDeadline || o.DrainTimeout < 0 {
		wrong = append(wrong, fmt.Errorf("option LeaseDuration %s must be longer than RenewDeadline %s, which must be at least twice RetryPeriod %s; DrainTimeout %s must not be negative",
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.DrainTimeout))
	}
	return &o, errors.Join(wrong...)
}

// leaseName is the name of the Lease of this member.
func (o *Options) leaseName() string { return o.Ring + "-" + o.Member }
