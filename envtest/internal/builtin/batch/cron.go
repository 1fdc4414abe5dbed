// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cronField is one of the five parts of a schedule.
type cronField struct {
	lowest, highest int
	names           string // of the values from the lowest on, three letters each
}

var cronFields = []cronField{
	{0, 59, ""}, {0, 23, ""}, {1, 31, ""}, {1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}, {0, 6, "sunmontuewedthufrisat"},
}

// checkSchedule says what is wrong with a schedule in the form of crontab, in the dialect that the CronJob controller reads.
func checkSchedule(schedule string) error {
	if zone, rest, ok := strings.Cut(schedule, " "); ok && (strings.HasPrefix(zone, "TZ=") || strings.HasPrefix(zone, "CRON_TZ=")) {
		_, name, _ := strings.Cut(zone, "=")
		if _, err := time.LoadLocation(name); err != nil {
			return fmt.Errorf("provided bad location %s: %w", name, err)
		}
		schedule = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(schedule, "@") {
		return checkDescriptor(schedule)
	}
	fields := strings.Fields(schedule)
	if len(fields) != len(cronFields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %v", len(cronFields), len(fields), fields)
	}
	for i, text := range fields {
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
			if err := cronFields[i].check(part); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkDescriptor(schedule string) error {
	switch schedule {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return nil
	}
	if every, ok := strings.CutPrefix(schedule, "@every "); ok {
		if _, err := time.ParseDuration(every); err != nil {
			return fmt.Errorf("failed to parse duration %s: %w", schedule, err)
		}
		return nil
	}
	return fmt.Errorf("unrecognized descriptor: %s", schedule)
}

// check looks at one value, range or step: a, a-b, *, each with or without /step.
func (f cronField) check(part string) error {
	value, step, stepped := strings.Cut(part, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil || n <= 0 {
			return fmt.Errorf("step of range should be a positive number: %s", part)
		}
	}
	if value == "*" || value == "?" {
		return nil
	}
	first, last, ranged := strings.Cut(value, "-")
	low, err := f.number(first)
	if err != nil {
		return err
	}
	high := low
	if ranged {
		if high, err = f.number(last); err != nil {
			return err
		}
	}
	switch {
	case low < f.lowest:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", low, f.lowest, part)
	case high > f.highest:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", high, f.highest, part)
	case low > high:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", low, high, part)
	}
	return nil
}

func (f cronField) number(text string) (int, error) {
	if i := strings.Index(f.names, strings.ToLower(text)); len(text) == 3 && i >= 0 && i%3 == 0 {
		return f.lowest + i/3, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	}
	return n, nil
}
