// Package tarn is the map of the project; the code is in its packages.
package tarn
