// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package form

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// UnixToInternal is the number of seconds between the start of the year 1, from which time.Time
// counts, and the Unix epoch.
const UnixToInternal int64 = (1969*365 + 1969/4 - 1969/100 + 1969/400) * 86400

// Formats are the formats of quantities that have a number.
var Formats = [...]string{"", string(resource.DecimalSI), string(resource.BinarySI), string(resource.DecimalExponent)}

// FormatOther marks a format that has no number and is written as a string.
const FormatOther = len(Formats)

// How the location of a time is written, and the flag of a short time.
const (
	ZoneUTC      = 0 // no location
	ZoneLocal    = 1
	ZoneNumbered = 2 // kept by the dictionary
	ZoneFixed    = 3 // name and offset
	ZoneMask     = 3
	TimeShort    = 4
)

// Flags of a quantity, above the number of its format.
const (
	QuantityFormat = 7
	QuantityScale  = 8
	QuantityCached = 16
	QuantityDec    = 32
)
