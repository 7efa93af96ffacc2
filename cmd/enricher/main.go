// Command enricher enriches the records of Kafka topics with the rows of other topics. This is the only place where the parts of the module meet: commands
// and flags (cli.go and a file per command), the running service (app.go), what the configuration means for each part (plan.go, memory.go, kafka.go,
// wiring.go), what people and probes see of it (status.go, metrics.go, log.go), and the demo (demo*.go).
//
// Exit codes: 0 done; 1 failed at run time; 2 bad configuration or usage. The last line on stderr of a failure says what happened and what to do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how soon after the first a signal is still the same one; nobody asks twice that fast.
const sameSignal = 20 * time.Millisecond

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signal.Ignore(syscall.SIGPIPE) // a reader of the output that goes away is an error of the write, not an end without cleaning up
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(fmt.Errorf("signal: %s", <-signals))
		// Some senders signal the process and then its group, so that one signal comes twice (timeout(1) does).
		for first := time.Now(); time.Since(first) < sameSignal; {
			<-signals
		}
		fmt.Fprintln(os.Stderr, "enricher: ended at once by a second signal; the next start goes on at the last commit")
		os.Exit(exitFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
