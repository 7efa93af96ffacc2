package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/twmb/franz-go/pkg/kgo"
)

// newLogger writes text for people when w is a terminal and JSON else; format "text" or "json" says so outright. level is one of debug, info, warn, error.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	o := &slog.HandlerOptions{Level: parseLevel(level)}
	if jsonLog(w, format) {
		o.ReplaceAttr = readableDuration
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// readableDuration writes durations with their unit, as the text handler does: the JSON handler writes bare nanoseconds.
func readableDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// jsonLog tells whether the log is for machines; format is auto, text or json.
func jsonLog(w io.Writer, format string) bool {
	return format == "json" || format != "text" && !terminal(w)
}

// parseLevel reads a level that config has checked.
func parseLevel(level string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return slog.LevelInfo
	}
	return l
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// clientLogger gives what the Kafka client says to slog, quieter than the client means it: what it calls an error it retries, and what it warns of (every
// connection that is refused) comes again and again while a broker is away. What is not mended by that comes back as an error of the call or as state,
// which is where it is reported.
type clientLogger struct {
	log *slog.Logger
}

// Level is the most talkative level of the client that would be seen.
func (l clientLogger) Level() kgo.LogLevel {
	for _, level := range []kgo.LogLevel{kgo.LogLevelInfo, kgo.LogLevelWarn, kgo.LogLevelError} {
		if l.log.Enabled(context.Background(), slogLevel(level)) {
			return level
		}
	}
	return kgo.LogLevelNone
}

// Log writes one message of the client.
func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	at := slogLevel(level)
	h := l.log.Handler()
	if !h.Enabled(context.Background(), at) {
		return
	}
	r := slog.NewRecord(time.Now(), at, "kafka client: "+msg, 0)
	r.Add(keyvals...)
	_ = h.Handle(context.Background(), r) // a log that can't be written can't be logged
}

func slogLevel(l kgo.LogLevel) slog.Level {
	switch l {
	case kgo.LogLevelError:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}
