// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed plot.svg.tmpl
var plotTemplate string

// The plot's measurements, in its own units.
const (
	plotLeft  = 330 // where the bars begin
	plotWidth = 380 // of the axis
	plotTop   = 92  // of the first bar
	plotRow   = 26
	plotBar   = 14
	plotEnd   = 1.5 // the greatest ratio; longer bars are cut, and have an arrow
)

// bar is one measure in the plot. Its numbers are positions in it.
type bar struct {
	Title, Value string
	Y, Width     float64
	Target       float64 // from the axis; 0 if there is none
	Cut          bool    // the bar is longer than the axis
	Good         bool    // it reaches its target, or is not above 1 if it has none
}

// grid is a line of the axis.
type grid struct {
	X    float64
	Text string
	One  bool
}

type chart struct {
	Title, Subtitle        string
	Facts                  []string // lines
	Bars                   []bar
	Grid                   []grid
	Left, Right, BarHeight float64 // Right is from the left end of the bars
	Width, Height          float64
	AxisTop, AxisBottom    float64
}

// plot draws one bar for each ratio of the result.
func plot(facts []string, rounds int, r *result) (string, error) {
	rows := r.rows()
	scale := func(ratio float64) float64 { return min(ratio, plotEnd) / plotEnd * plotWidth }
	c := chart{
		Title:    "Tarn's cache, measured against controller-runtime's",
		Subtitle: fmt.Sprintf("Tarn's share of controller-runtime's figure (1.0) with %s Pods; shorter is better. Median of %s.", digits(float64(r.pods)), plural(rounds, "round")),
		Facts:    halves(facts), Left: plotLeft, Right: plotWidth + 14, BarHeight: plotBar, Width: plotLeft + plotWidth + 80, AxisTop: plotTop - 12,
	}
	for _, row := range rows {
		if !row.compared {
			continue
		}
		c.Bars = append(c.Bars, bar{
			Title: strings.ReplaceAll(row.title, "`", ""), Value: ratioText(row.ratio),
			Y: float64(plotTop + plotRow*len(c.Bars)), Width: max(1, scale(row.ratio)),
			Target: scale(row.goal), Cut: row.ratio > plotEnd, Good: row.ratio <= cmp.Or(row.goal, 1),
		})
	}
	c.AxisBottom = float64(plotTop+plotRow*len(c.Bars)) - 4
	c.Height = c.AxisBottom + 72
	for ratio := 0.0; ratio <= plotEnd; ratio += 0.25 {
		c.Grid = append(c.Grid, grid{X: plotLeft + scale(ratio), Text: fmt.Sprintf("%g", ratio), One: ratio == 1})
	}
	parsed, err := template.New("plot").Parse(plotTemplate)
	if err != nil {
		return "", fmt.Errorf("draw the plot: %w", err)
	}
	b := &strings.Builder{}
	if err := parsed.Execute(b, c); err != nil {
		return "", fmt.Errorf("draw the plot: %w", err)
	}
	return b.String(), nil
}

// halves returns the facts as two lines.
func halves(facts []string) []string {
	middle := (len(facts) + 1) / 2
	return []string{strings.Join(facts[:middle], ", ") + ",", strings.Join(facts[middle:], ", ")}
}
