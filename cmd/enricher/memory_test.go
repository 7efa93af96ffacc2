package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSplitMemory(t *testing.T) {
	const mib = 1 << 20
	cases := map[string]struct {
		total      int64
		disk, heap int
		want       memorySplit
		err        string
	}{
		"default, one dimension":    {512 * mib, 1, 0, memorySplit{Store: 351.75 * mib, DimensionFetch: 63.5 * mib, FactFetch: 63.5 * mib, Produce: 33.25 * mib}, ""},
		"default, four dimensions":  {512 * mib, 4, 0, memorySplit{Store: 93634560, DimensionFetch: 16547840, FactFetch: 63045632, Produce: 33095680}, ""},
		"much":                      {64 << 30, 2, 0, memorySplit{Store: 32<<30 - 128*mib, DimensionFetch: 64 * mib, FactFetch: 64 * mib, Produce: 64 * mib}, ""},
		"the least, one dimension":  {12 * mib, 1, 0, memorySplit{Store: 8 * mib, DimensionFetch: mib, FactFetch: mib, Produce: 2 * mib}, ""},
		"no dimension":              {12 * mib, 0, 0, memorySplit{Store: 8 * mib, DimensionFetch: mib, FactFetch: mib, Produce: 2 * mib}, ""},
		"one in memory":             {512 * mib, 0, 1, memorySplit{Store: 128 * mib, Rows: 351.75 * mib, DimensionFetch: 63.5 * mib, FactFetch: 63.5 * mib, Produce: 33.25 * mib}, ""},
		"one in memory, three not":  {4096 * mib, 3, 1, memorySplit{Store: 128 * mib, Rows: (4096 - 3*128 - 6*64) * mib, DimensionFetch: 64 * mib, FactFetch: 64 * mib, Produce: 64 * mib}, ""},
		"little, one of each":       {21 * mib, 1, 1, memorySplit{Store: 8 * mib, Rows: 8 * mib, DimensionFetch: mib, FactFetch: mib, Produce: 2 * mib}, ""},
		"too little, one dimension": {11 * mib, 1, 0, memorySplit{}, "too little for 1 dimension(s): 11MiB (at least 12MiB)"},
		"too little for so many":    {64 * mib, 20, 0, memorySplit{}, "too little for 20 dimension(s): 64MiB (at least 183MiB)"},
		"nothing":                   {0, 1, 0, memorySplit{}, "too little for 1 dimension(s): 0MiB (at least 12MiB)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := splitMemory(c.total, c.disk, c.heap)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestSplitMemoryNeverExceedsTheWhole(t *testing.T) {
	for n := range 40 {
		for total := int64(1 << 20); total < 1<<40; total = total*5/4 + 7 {
			for _, heap := range []int{0, n / 3, n} {
				s, err := splitMemory(total, n-heap, heap)
				if err != nil {
					continue
				}
				k := int64(max(n, 1))
				sum := int64(max(n-heap, 1-n))*s.Store + int64(heap)*s.Rows + k*int64(s.DimensionFetch) + int64(s.FactFetch) + int64(s.Produce)
				require.LessOrEqual(t, sum, total, "%d dimensions", n)
				require.Greater(t, sum, total-k, "%d dimensions: memory is left over", n)
				require.GreaterOrEqual(t, s.Store, int64(minStoreMemory), "%d dimensions, %d bytes", n, total)
				store, cache := s.withCache()
				require.Equal(t, s.Store, store+cache)
				require.GreaterOrEqual(t, store, int64(minStoreMemory))
				require.True(t, heap == 0 || s.Rows >= s.Store, "%d dimensions, %d bytes", n, total)
			}
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	assert.Equal(t, int64(768<<20), memoryLimit(512<<20))
	assert.Equal(t, int64(math.MaxInt64), memoryLimit(math.MaxInt64-1))
}
