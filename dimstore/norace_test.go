//go:build !race

package dimstore_test

const raceDetector = false
