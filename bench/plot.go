// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed plot.svg.tmpl
var plotTemplate string

// The plot's measurements, in its own units.
const (
	plotLeft  = 400 // where the bars begin
	plotWidth = 380 // of the axis
	plotTop   = 104 // of the first group
	plotBar   = 7
	plotGap   = 9   // between groups
	plotEnd   = 1.5 // the greatest ratio; longer bars are cut, and have an arrow
)

// group is one measure in the plot, with a bar for each number of Pods. All numbers
// are positions in it.
type group struct {
	Title, Values  string
	Y, Middle, End float64
	Bars           []bar
}

type bar struct {
	Y, Width float64
	Opacity  float64 // tells numbers of Pods apart
	Bound    float64 // from the axis; 0 if there is none
	Cut      bool    // the bar is longer than the axis
	Good     bool    // it reaches its bound, or is not above 1 if it has none
}

// grid is a line of the axis.
type grid struct {
	X    float64
	Text string
	One  bool
}

type chart struct {
	Title, Subtitle     string
	Facts               []string // lines
	Groups              []group
	Grid                []grid
	Left, Right         float64 // Right is from the left end of the bars
	BarHeight           float64
	Width, Height       float64
	AxisTop, AxisBottom float64
}

func scale(ratio float64) float64 { return min(ratio, plotEnd) / plotEnd * plotWidth }

// plot draws a bar for each ratio of the results.
func plot(facts []string, rounds int, results []*result) (string, error) {
	var sizes []string
	for _, r := range results {
		sizes = append(sizes, digits(float64(r.pods)))
	}
	c := chart{
		Title: "Tarn's cache, measured against controller-runtime's",
		Subtitle: fmt.Sprintf("Tarn's share of controller-runtime's figure (1.0), from top to bottom with %s Pods; shorter is better. Median of %s.",
			strings.Join(sizes, ", "), plural(rounds, "round")),
		Facts: halves(facts), Left: plotLeft, Right: plotWidth + 14, BarHeight: plotBar - 1,
		Width: plotLeft + plotWidth + 150, AxisTop: plotTop - 12,
	}
	bottom := float64(plotTop)
	for _, m := range measures() {
		if g := groupOf(m, results); len(g.Bars) > 0 {
			g.Y, g.End = bottom, float64(plotBar*len(g.Bars))
			g.Middle = g.End/2 + 4
			bottom += g.End + plotGap
			c.Groups = append(c.Groups, g)
		}
	}
	c.AxisBottom = bottom - 4
	c.Height = c.AxisBottom + 72
	for ratio := 0.0; ratio <= plotEnd; ratio += 0.25 {
		c.Grid = append(c.Grid, grid{X: plotLeft + scale(ratio), Text: fmt.Sprintf("%g", ratio), One: ratio == 1})
	}
	return render(c)
}

// groupOf returns the bars of one measure in all results.
func groupOf(m measure, results []*result) group {
	g := group{Title: strings.ReplaceAll(m.title, "`", "")}
	var values []string
	for i, r := range results {
		for _, row := range r.rows() {
			if row.id != m.id || !row.compared {
				continue
			}
			values = append(values, ratioText(row.ratio))
			g.Bars = append(g.Bars, bar{
				Y: float64(plotBar * len(g.Bars)), Width: max(1, scale(row.ratio)), Opacity: 0.4 + 0.6*float64(i+1)/float64(len(results)),
				Bound: scale(row.bound), Cut: row.ratio > plotEnd, Good: row.met(),
			})
		}
	}
	g.Values = strings.Join(values, " · ")
	return g
}

func render(c chart) (string, error) {
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
