// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// format returns the value with three significant digits. like is the value beside
// it in the table, which decides in what it is counted, so that both can be compared
// at a glance.
func format(u unit, value, like float64) string {
	switch u {
	case bytesOf:
		return digits(value/(1<<20)) + " MiB"
	case secondsPerSecond:
		return digits(value*1000) + " ms/s"
	case numberOf:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	switch {
	case like >= 1:
		return digits(value) + " s"
	case like >= 1e-3:
		return digits(value*1e3) + " ms"
	}
	return digits(value*1e6) + " µs"
}

// digits returns three significant digits, and all digits before the point.
func digits(value float64) string {
	if value == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// ratioText returns a ratio so that small ones can be told apart too.
func ratioText(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("%.3f", ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}
