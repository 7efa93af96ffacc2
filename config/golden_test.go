package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each file in testdata/problems is refused with exactly the lines beside it. Those
// in testdata/later use keys that are not built yet: they are parsed as if they
// were.
func TestProblems(t *testing.T) {
	for dir, unbuilt := range map[string][]unbuiltKey{"problems": notBuilt(), "later": nil} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			t.Run(dir+"/"+filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				cfg, err := parse(filepath.Base(file), data, nil, unbuilt)
				assert.Nil(t, cfg)
				golden(t, strings.TrimSuffix(file, ".yaml")+".txt", message(t, err))
			})
		}
	}
}

// message is what is printed for a refused configuration.
func message(t *testing.T, err error) string {
	t.Helper()
	var invalid *InvalidError
	require.ErrorAs(t, err, &invalid)
	require.NotEmpty(t, invalid.Problems)
	return invalid.Error() + "\n"
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update to write the file")
	assert.Equal(t, string(want), got)
}
