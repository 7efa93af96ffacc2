package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestLogFormat(t *testing.T) {
	devNull, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer devNull.Close()
	assert.True(t, jsonLog(&bytes.Buffer{}, "auto"))
	assert.True(t, jsonLog(devNull, "auto"), "a character device is not yet a terminal")
	assert.True(t, jsonLog(&bytes.Buffer{}, "json"))
	assert.False(t, jsonLog(&bytes.Buffer{}, "text"))
	var out bytes.Buffer
	newLogger(&out, "info", "json").Info("x", "k", 1)
	assert.Contains(t, out.String(), `"msg":"x","k":1}`)
	out.Reset()
	newLogger(&out, "info", "json").Info("x", "took", 1500*time.Millisecond)
	assert.Contains(t, out.String(), `"took":"1.5s"}`, "a duration has its unit")
	out.Reset()
	newLogger(&out, "info", "text").Info("x", "k", 1)
	assert.Contains(t, out.String(), "msg=x k=1\n")
}

func TestLogLevel(t *testing.T) {
	cases := map[string]string{"debug": "diwe", "info": "iwe", "warn": "we", "error": "e"}
	for level, want := range cases {
		var out bytes.Buffer
		log := newLogger(&out, level, "text")
		var got strings.Builder
		for _, at := range []struct {
			letter string
			write  func(string, ...any)
		}{{"d", log.Debug}, {"i", log.Info}, {"w", log.Warn}, {"e", log.Error}} {
			before := out.Len()
			at.write("x")
			if out.Len() > before {
				got.WriteString(at.letter)
			}
		}
		assert.Equal(t, want, got.String(), level)
	}
}

func TestTheClientsLogIsQuieter(t *testing.T) {
	cases := map[string]struct {
		level kgo.LogLevel
		seen  string
	}{
		"debug": {kgo.LogLevelInfo, "level=DEBUG msg=\"kafka client: x\" broker=1\n"}, // its own debug lines are one per request
		"info":  {kgo.LogLevelError, ""},
		"warn":  {kgo.LogLevelError, ""},
		"error": {kgo.LogLevelNone, ""},
	}
	for level, c := range cases {
		var out bytes.Buffer
		l := clientLogger{newLogger(&out, level, "text")}
		assert.Equal(t, c.level, l.Level(), level)
		l.Log(kgo.LogLevelInfo, "x", "broker", 1)
		if c.seen == "" {
			assert.Empty(t, out.String(), level)
		} else {
			assert.Contains(t, out.String(), c.seen, level)
		}
	}
	var out bytes.Buffer
	clientLogger{newLogger(&out, "warn", "text")}.Log(kgo.LogLevelError, "x")
	assert.Contains(t, out.String(), "level=WARN")
}
