package main

import (
	"os"
	"testing"
)

// asProgram in the environment makes the test binary the program itself, for tests that need a process: signals, exit codes.
const asProgram = "ENRICHER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	m.Run()
}
