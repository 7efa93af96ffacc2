//go:build race

package integration

// raceEnabled: with `go test -race` the binary is built with the detector too.
const raceEnabled = true
