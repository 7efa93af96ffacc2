package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"enricher/config"
)

func serviceCommand(environ []string) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run the service until SIGINT or SIGTERM",
		Long: `Run reads the dimensions until they are complete, joins the consumer group and enriches facts until SIGINT or SIGTERM. Then it finishes or gives back
what it has begun within processing.shutdown_grace and exits 0. A second signal ends it at once with exit code 1.

Every key of the file can be set in the environment: ENRICHER_KAFKA__BROKERS=a:9092,b:9092 is kafka.brokers.`,
		Example: `  enricher run -c enricher.yaml
  ENRICHER_KAFKA__BROKERS=kafka:9092 enricher run -c enricher.yaml`,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command) error {
			return runService(cmd.Context(), file, environ, cmd.ErrOrStderr())
		}),
	}
	configFlag(cmd, &file)
	return cmd
}

// runService is the run command.
func runService(ctx context.Context, file string, environ []string, stderr io.Writer) error {
	cfg, err := config.Load(file, environ)
	if err != nil {
		return err
	}
	log := newLogger(stderr, cfg.Log.Level, cfg.Log.Format)
	v := buildVersion()
	a, err := newApp(cfg, v, log)
	if err != nil {
		return err
	}
	began := time.Now()
	log.InfoContext(ctx, "enricher starts", "version", v.Version, "commit", v.Commit, "config", file)
	limitMemory(ctx, int64(cfg.Store.Memory), environ, log)
	for _, w := range a.plan.Lookup.Warnings() {
		log.WarnContext(ctx, "the configuration is hardly meant like this", "place", cfg.Locate(w.Path), "key", w.Path, "problem", w.Message)
	}
	if cfg.Kafka.SASL.Mechanism == "PLAIN" && !cfg.Kafka.TLS.Enabled {
		log.WarnContext(ctx, "the password crosses the network in the clear: set kafka.tls.enabled, or a SCRAM mechanism", "key", "kafka.sasl.mechanism")
	}
	if cfg.Admin.TokenFile != "" && !onLoopback(cfg.Admin.Listen) {
		log.WarnContext(ctx, "the token of the admin server crosses the network in the clear: let a proxy or a mesh encrypt it, or listen on 127.0.0.1", "key", "admin.listen")
	}
	stop := context.AfterFunc(ctx, func() {
		log.InfoContext(ctx, "stopping", "cause", context.Cause(ctx).Error(), "grace", cfg.Processing.ShutdownGrace.String())
	})
	defer stop()
	if err := a.Run(ctx); err != nil {
		if jsonLog(stderr, cfg.Log.Format) {
			log.ErrorContext(ctx, "enricher failed", "error", oneLine(err), "ran", time.Since(began).Round(time.Millisecond).String())
			return &failure{err: err, logged: true}
		}
		return err
	}
	log.InfoContext(ctx, "enricher stopped", "ran", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// gcPercent lets the heap double and once more between two collections. What lives in it is small and bounded (buffers, and only with store: memory rows), and the memory
// limit holds all the same; at Go's default of 100 a twelfth of the time went into collections.
const gcPercent = 200

// limitMemory sets the soft limit of the heap, unless the environment does.
func limitMemory(ctx context.Context, memory int64, environ []string, log *slog.Logger) {
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, "GOMEMLIMIT="); ok && value != "" {
			log.InfoContext(ctx, "memory limit is that of GOMEMLIMIT in the environment", "limit", value)
			return
		}
	}
	limit := memoryLimit(memory)
	if !slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, "GOGC=") }) {
		debug.SetGCPercent(gcPercent)
	}
	debug.SetMemoryLimit(limit)
	log.InfoContext(ctx, "memory limit is store.memory and the runtime's share", "limit", config.Size(limit).String(), "runtime", config.Size(runtimeMemory).String())
}

// onLoopback reports whether an address to listen on can be reached from this machine only.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
