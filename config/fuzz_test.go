package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Any file with any environment is either taken or refused with problems that can
// be printed; the answer is the same each time.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/problems/*.yaml", "testdata/later/*.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, file := range files {
			if strings.Contains(file, "bomb") || strings.Contains(file, "merges") {
				continue // right, and slow to mutate
			}
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data, "ENRICHER_KAFKA__BROKERS=a:1", true)
		}
	}
	f.Add([]byte(withTables), "ENRICHER_INPUT__START=2025-06-01T00:00:00Z", false)
	f.Add([]byte("{}"), "ENRICHER_LOOKUPS__0=x", false)
	f.Fuzz(func(t *testing.T, data []byte, variable string, built bool) {
		unbuilt := notBuilt()
		if built {
			unbuilt = nil
		}
		// Files that the configuration names are opened: keep them out of the root.
		if strings.Contains(string(data)+variable, "_file") {
			return
		}
		cfg, err := parse("f.yaml", data, []string{variable}, unbuilt)
		again, err2 := parse("f.yaml", data, []string{variable}, unbuilt)
		assert.Equal(t, err, err2)
		assert.Equal(t, cfg, again)
		if err == nil {
			checkAccepted(t, cfg)
			return
		}
		assert.Nil(t, cfg)
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid)
		require.NotEmpty(t, invalid.Problems)
		for _, p := range invalid.Problems {
			assert.NotEmpty(t, p.What)
			assert.Negative(t, strings.IndexFunc(p.String(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", p.String())
			assert.LessOrEqual(t, p.Line, strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+strings.Count(string(data), "\u0085")+strings.Count(string(data), "\u2028")+strings.Count(string(data), "\u2029")+1)
			assert.NotContains(t, p.String(), "BUG")
		}
	})
}

// checkAccepted is what everything that reads a Config relies on.
func checkAccepted(t *testing.T, cfg *Config) {
	t.Helper()
	assert.NotEmpty(t, cfg.Kafka.Brokers)
	assert.NotEmpty(t, cfg.Input.Topics)
	assert.NotEmpty(t, cfg.Input.Group)
	assert.NotEmpty(t, cfg.Output.Topic)
	assert.GreaterOrEqual(t, cfg.Processing.TransactionTimeout/3, cfg.Processing.CommitInterval)
	assert.Positive(t, cfg.Processing.Capacity)
	assert.Positive(t, cfg.Store.Memory)
	for _, d := range cfg.Dimensions {
		assert.NotEmpty(t, d.Name)
		assert.NotContains(t, d.Name, "/")
		assert.NotEmpty(t, d.Topic+d.TopicPattern)
		assert.NotEmpty(t, d.PrimaryKey)
		assert.Subset(t, d.PrimaryKey, d.PartitionBy)
	}
	for _, k := range cfg.Lookups {
		assert.GreaterOrEqual(t, cfg.DimensionIndex(k.Dimension), 0)
		assert.NotEmpty(t, k.On)
		assert.True(t, k.Select.All || k.Select.Fields != nil)
		for _, c := range k.On {
			assert.NotEqual(t, c.Value.Text == "", c.Value.Const == nil)
		}
	}
}
