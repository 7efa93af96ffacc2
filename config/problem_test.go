package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLocate(t *testing.T) {
	cfg := mustParse(t, `kafka:
  brokers:
    - a:1
    - b:1
input: {topics: [orders], group: g}
output: {topic: out}
dimensions:
  - name: d
    topic: d
    primary_key:
      [id]
lookups:
  - dimension: d
    on:
      id: a
      a.b[0]: c
    select:
      - x
      - y
`, "ENRICHER_LOG__LEVEL=info")
	for path, want := range map[string]string{
		"kafka":                     "f.yaml:1",
		"kafka.brokers[1]":          "f.yaml:4",
		"kafka.rack":                "f.yaml:1",
		"dimensions[0]":             "f.yaml:8",
		"dimensions[0].primary_key": "f.yaml:10",
		"dimensions[0].store":       "f.yaml:8",
		"dimensions[7].store":       "f.yaml:7",
		"lookups[0].on.id":          "f.yaml:15",
		"lookups[0].on.a.b[0]":      "f.yaml:16",
		"lookups[0].on.zzz":         "f.yaml:14",
		"lookups[0].select[1]":      "f.yaml:19",
		"lookups[0].where.x":        "f.yaml:13",
		"processing.capacity":       "f.yaml:1",
		"log.level":                 "ENRICHER_LOG__LEVEL",
		"log.format":                "f.yaml:1",
		"":                          "f.yaml:1",
		"[":                         "f.yaml:1",
		"..":                        "f.yaml:1",
	} {
		assert.Equal(t, want, cfg.Locate(path), path)
	}
	assert.True(t, cfg.Written("log.level"))
	assert.False(t, cfg.Written("log.format"))
}

// What other packages find is printed like what this one finds.
func TestLaterProblems(t *testing.T) {
	cfg := mustParse(t, withTables, "ENRICHER_OUTPUT__PARTITION=input")
	require.NoError(t, NewInvalidError(nil))
	err := NewInvalidError([]Problem{
		cfg.Problem("output.partition", "fewer Kafka partitions than the input", "8 or more"),
		cfg.Problem("lookups[0].on", "no key fits", ""),
		cfg.Problem("lookups[0].on", "no key fits", ""),
		cfg.Problem("dimensions[0].topic", "topic is gone", ""),
	})
	var invalid *InvalidError
	require.ErrorAs(t, fmt.Errorf("validate: %w", err), &invalid)
	assert.Len(t, invalid.Problems, 3)
	require.EqualError(t, err, "f.yaml:6: dimensions[0].topic: topic is gone\n"+
		"f.yaml:7: lookups[0].on: no key fits\n"+
		"ENRICHER_OUTPUT__PARTITION: output.partition: fewer Kafka partitions than the input (8 or more)")
}

// A problem is one line, whatever the file contains.
func TestProblemIsOneLine(t *testing.T) {
	text := refused(t, minimal+"log: {\"a\\nb\\x1b[31m\\u2028\": 1, level: \"x\\ny"+strings.Repeat("z", 1000)+"\"}")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Len(t, lines, 2)
	assert.Equal(t, `f.yaml:5: log.a\nb\x1b[31m\u2028: unknown key (one of level, format)`, lines[0])
	assert.Less(t, len(lines[1]), 200)
}

func TestSecretIsNotPrinted(t *testing.T) {
	cfg := mustParse(t, with("[a:1]", "[a:1], sasl: {mechanism: PLAIN, username: u, password: hunter2}"))
	require.Equal(t, "hunter2", cfg.Kafka.SASL.Password.Reveal())
	encoded, err := json.Marshal(cfg)
	require.NoError(t, err)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("configuration", "sasl", cfg.Kafka.SASL, "password", cfg.Kafka.SASL.Password)
	for _, shown := range []string{
		fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), fmt.Sprintf("%q %x %d", cfg.Kafka.SASL.Password, cfg.Kafka.SASL.Password, cfg.Kafka.SASL.Password),
		string(encoded), logged.String(), errors.New(cfg.Kafka.SASL.Password.String()).Error(),
	} {
		assert.NotContains(t, shown, "hunter2")
		assert.NotContains(t, shown, "68756e74657232")
	}
	assert.Empty(t, Secret("").String())
}

func TestSizeString(t *testing.T) {
	for size, want := range map[Size]string{0: "0", 1: "1B", 1000: "1000B", 1 << 10: "1KiB", 3 << 19: "1536KiB", 512 << 20: "512MiB", 1 << 40: "1TiB"} {
		assert.Equal(t, want, size.String())
		back, ok := parseSize(want)
		assert.True(t, ok)
		assert.Equal(t, size, back)
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"brokers", "client_id", "rack", "tls", "sasl", ""}
	for name, want := range map[string]string{
		"Brokers": "brokers", "broker": "brokers", "borkers": "brokers", "clientid": "client_id", "client-id": "client_id",
		"rak": "rack", "ssl": "sasl", "sasl_config": "sasl", "bro": "brokers", "x": "", "": "", "zzzz": "", "räck": "rack",
	} {
		assert.Equal(t, want, nearest(name, candidates), name)
	}
	assert.Empty(t, nearest(strings.Repeat("a", 65), []string{strings.Repeat("a", 65)}))
	assert.Equal(t, 1, distance("ab", "ba"))
	assert.Equal(t, 3, distance("kitten", "sitting"))
}
