package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// binary is the built program, made once by TestMain.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios wait most of the time, so more of them than cores run at once.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("5")
	}
	if err := prepare(m); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		os.Exit(1) //nolint:forbidigo // the exit code of a test binary
	}
}

// prepare builds the binary, starts the shared broker, runs the scenarios and
// cleans up. A failed scenario is not an error of it: m.Run has the exit code.
func prepare(m *testing.M) error {
	dir, err := os.MkdirTemp("", "enricher-integration-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "enricher")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	began := time.Now()
	build := exec.Command("go", append(args, "enricher/cmd/enricher")...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	built := time.Since(began)

	began = time.Now()
	kafka, err = chooseKafka(context.Background())
	if err != nil {
		return err
	}
	if kafka.shared, err = kafka.start(abortCheckShared); err != nil {
		return err
	}
	defer kafka.shared.close()
	fmt.Fprintf(os.Stderr, "integration: scenarios run on %s (ready in %.1f s; binary built in %.1f s, race detector %t)\n",
		kafka.what, time.Since(began).Seconds(), built.Seconds(), raceEnabled)
	m.Run()
	return nil
}

// chooseKafka prefers a real broker, and takes no other when one is required.
func chooseKafka(ctx context.Context) (testBroker, error) {
	required, _ := strconv.ParseBool(os.Getenv("ENRICHER_REQUIRE_KAFKA"))
	found, err := dockerKafka(ctx)
	if err == nil {
		return found, nil
	}
	if required {
		return testBroker{}, errors.Join(errors.New("ENRICHER_REQUIRE_KAFKA is set, but there is no real broker"), err)
	}
	fake := fakeKafka()
	fake.what += fmt.Sprintf(", a fake, because there is no real Kafka here: %v", err)
	return fake, nil
}

// inputs tells the test cache what a result depends on: the go command records
// the files and variables that a running test looks at. The program is not
// imported here, so without this a changed program would be "(cached)".
var inputs = sync.OnceFunc(func() {
	for _, name := range []string{"ENRICHER_REQUIRE_KAFKA", "KAFKA_IMAGE", "DOCKER_HOST"} {
		os.Getenv(name)
	}
	_ = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && (filepath.Ext(path) == ".go" || filepath.Ext(path) == ".mod") {
			_, err = os.Stat(path)
		}
		return err
	})
})
