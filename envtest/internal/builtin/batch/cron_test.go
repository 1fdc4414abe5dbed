// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"testing"
)

func TestCheckSchedule(t *testing.T) {
	for schedule, valid := range map[string]bool{
		"* * * * *": true, "*/5 0-23 1,15 jan-dec Mon": true, "0 0 ? * 6": true, "@daily": true, "@every 1h30m": true,
		"TZ=UTC 0 0 * * *": true, "59 23 31 12 0": true, "1-59/2 * * * *": true,
		"60 * * * *": false, "* 24 * * *": false, "* * 0 * *": false, "* * * 13 *": false, "* * * * 7": false, "5-1 * * * *": false,
		"*/0 * * * *": false, "a * * * *": false, "* * * *": false, "@sometimes": false, "@every soon": false, "-1 * * * *": false,
		"TZ=Nowhere/Land 0 0 * * *": false,
	} {
		if err := checkSchedule(schedule); (err == nil) != valid {
			t.Errorf("%q: %v, want valid=%t", schedule, err, valid)
		}
	}
}
