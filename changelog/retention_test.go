package changelog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/record"
)

func partitionOf(t *testing.T, typ record.Type, json string) []byte {
	t.Helper()
	code, err := record.AppendKey(nil, typ, []byte(json))
	require.NoError(t, err)
	return code
}

func timeSchema(t *testing.T, typ record.Type) *record.Schema {
	t.Helper()
	s, err := record.NewSchema([]record.Column{{Name: "id", Type: record.Int}, {Name: "dt", Type: typ}}, nil, []string{"id", "dt"}, []string{"dt"})
	require.NoError(t, err)
	return s
}

func TestRetention(t *testing.T) {
	const (
		older   = "older"   // leaves
		kept    = "kept"    // may be the latest
		ahead   = "ahead"   // kept, never the latest
		invalid = "invalid" // an error
	)
	for _, c := range []struct {
		name   string
		a      AutoPartition
		typ    record.Type
		now    string
		values map[string]string // JSON → what it is
	}{
		{
			"days",
			AutoPartition{TimeUnit: "day", Retention: 7},
			record.String, "2025-03-20T12:00:00Z",
			map[string]string{
				`"20250312"`: older, `"20250313"`: kept, `"20250320"`: kept, `"20250321"`: kept, `"20250322"`: ahead, `"19700101"`: older, `"99991231"`: ahead,
				`"2025-03-20"`: invalid, `"20250230"`: invalid, `"202503200"`: invalid, `"2025032"`: invalid, `""`: invalid, `" 20250320"`: invalid, `"20251320"`: invalid,
				`"2025032x"`: invalid, `20250320`: kept, `"２０２５0320"`: invalid,
			},
		},
		{
			"days over the end of a leap February",
			AutoPartition{TimeUnit: "day", Retention: 1},
			record.Int, "2024-03-01T00:00:00Z",
			map[string]string{`20240228`: older, `20240229`: kept, `20240302`: kept, `20240303`: ahead, `20230229`: invalid, `-20240301`: invalid},
		},
		{
			"days of another zone", AutoPartition{TimeUnit: "day", Retention: 1, TimeZone: "Asia/Tokyo"}, record.Any, "2025-03-20T15:00:00Z", // the 21st there
			map[string]string{`20250319`: older, `"20250320"`: kept, `20250322`: kept, `20250323`: ahead, `true`: invalid, `2025032.5`: invalid},
		},
		{
			"days in which the clocks change", AutoPartition{TimeUnit: "day", Retention: 1, TimeZone: "Europe/Berlin"}, record.String, "2025-10-26T22:59:59Z", // 23:59:59
			map[string]string{`"20251024"`: older, `"20251025"`: kept, `"20251027"`: kept, `"20251028"`: ahead},
		},
		{
			"dates",
			AutoPartition{TimeUnit: "day", Retention: 2},
			record.Date, "2025-01-01T00:00:00Z",
			map[string]string{`"2024-12-29"`: older, `"2024-12-30"`: kept, `"2025-01-02"`: kept, `"2025-01-03"`: ahead},
		},
		{
			"dates by month",
			AutoPartition{TimeUnit: "month", Retention: 1},
			record.Date, "2025-01-01T00:00:00Z",
			map[string]string{`"2024-11-30"`: older, `"2024-12-01"`: kept, `"2025-02-28"`: kept, `"2025-03-01"`: ahead},
		},
		{
			"times",
			AutoPartition{TimeUnit: "day", Retention: 1, TimeZone: "Asia/Tokyo"},
			record.Timestamp, "2025-03-20T00:00:00Z",
			map[string]string{`"2025-03-18T14:59:59Z"`: older, `"2025-03-18T15:00:00Z"`: kept, `"2025-03-22T00:00:00+09:00"`: ahead},
		},
		{
			"hours",
			AutoPartition{TimeUnit: "hour", Retention: 2},
			record.String, "2025-03-01T01:30:00Z",
			map[string]string{`"2025022822"`: older, `"2025022823"`: kept, `"2025030102"`: kept, `"2025030103"`: ahead, `"2025030124"`: invalid},
		},
		{
			"hours when the clocks go forward", AutoPartition{TimeUnit: "hour", Retention: 1, TimeZone: "Europe/Berlin"}, record.String, "2025-03-30T01:30:00Z", // 03:30, an hour ago 01:30
			map[string]string{`"2025033000"`: older, `"2025033001"`: kept, `"2025033003"`: kept, `"2025033004"`: kept, `"2025033005"`: ahead},
		},
		{
			"hours when the clocks go back, before", AutoPartition{TimeUnit: "hour", Retention: 1, TimeZone: "Europe/Berlin"}, record.String, "2025-10-26T00:30:00Z", // 02:30, the first
			map[string]string{`"2025102600"`: older, `"2025102601"`: kept, `"2025102602"`: kept, `"2025102603"`: ahead},
		},
		{
			"hours when the clocks go back, after", AutoPartition{TimeUnit: "hour", Retention: 1, TimeZone: "Europe/Berlin"}, record.String, "2025-10-26T02:30:00Z", // 03:30
			map[string]string{`"2025102601"`: older, `"2025102602"`: kept, `"2025102604"`: kept, `"2025102605"`: ahead},
		},
		{
			"hours of a zone that is off by half of one", AutoPartition{TimeUnit: "hour", Retention: 1, TimeZone: "Asia/Kolkata"}, record.String, "2025-03-20T00:00:00Z", // 05:30
			map[string]string{`"2025032003"`: older, `"2025032004"`: kept, `"2025032006"`: kept, `"2025032007"`: ahead},
		},
		{
			"months",
			AutoPartition{TimeUnit: "month", Retention: 2},
			record.Int32, "2025-03-31T23:00:00Z",
			map[string]string{`202412`: older, `202501`: kept, `202503`: kept, `202504`: kept, `202505`: ahead, `202513`: invalid, `202500`: invalid},
		},
		{
			"quarters",
			AutoPartition{TimeUnit: "quarter", Retention: 2},
			record.String, "2025-02-10T00:00:00Z",
			map[string]string{`"20242"`: older, `"20243"`: kept, `"20251"`: kept, `"20252"`: kept, `"20253"`: ahead, `"20255"`: invalid, `"20250"`: invalid},
		},
		{
			"quarters of months",
			AutoPartition{TimeUnit: "quarter", Retention: 1, Format: "yyyy-MM"},
			record.String, "2025-02-10T00:00:00Z",
			map[string]string{`"2024-09"`: older, `"2024-10"`: kept, `"2025-06"`: kept, `"2025-07"`: ahead},
		},
		{
			"years",
			AutoPartition{TimeUnit: "year", Retention: 1},
			record.Int, "2025-12-31T23:59:59Z",
			map[string]string{`2023`: older, `2024`: kept, `2025`: kept, `2026`: kept, `2027`: ahead, `25`: invalid},
		},
		{
			"a format of letters, quotes and signs",
			AutoPartition{TimeUnit: "day", Retention: 1, Format: "'day'd.M.yy '''o' HH"},
			record.String, "2025-03-20T12:00:00Z",
			map[string]string{`"day18.3.25 'o 23"`: older, `"day19.03.25 'o 00"`: kept, `"day9.12.25 'o 00"`: ahead, `"18.3.25 'o 23"`: invalid, `"day19.03.25 'o 24"`: invalid},
		},
		{
			"a quarter beside its month",
			AutoPartition{TimeUnit: "month", Retention: 1, Format: "yyyyMM-Q"},
			record.String, "2025-03-20T12:00:00Z",
			map[string]string{`"202503-1"`: kept, `"202503-2"`: invalid},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.a.Column = "dt"
			r, err := NewRetention(timeSchema(t, c.typ), c.a)
			require.NoError(t, err)
			now, err := time.Parse(time.RFC3339, c.now)
			require.NoError(t, err)
			for range 2 { // the second time from memory
				for value, want := range c.values {
					p := partitionOf(t, c.typ, value)
					_, err := r.parse(p)
					assert.Equal(t, want == invalid, err != nil, "%s: %v", value, err)
					assert.Equal(t, want == older, r.expired(p, now), value)
					assert.Equal(t, want == ahead || want == invalid, r.ahead(p, now), value)
				}
			}
		})
	}
}

func TestRetentionOfOneColumnOfSeveral(t *testing.T) {
	s, err := record.NewSchema([]record.Column{{Name: "region", Type: record.String}, {Name: "dt", Type: record.Int}, {Name: "id", Type: record.Int}},
		nil, []string{"id", "region", "dt"}, []string{"region", "dt"})
	require.NoError(t, err)
	r, err := NewRetention(s, AutoPartition{Column: "dt", TimeUnit: "year", Retention: 1})
	require.NoError(t, err)
	now := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	of := func(region, year string) []byte {
		return append(partitionOf(t, record.String, region), partitionOf(t, record.Int, year)...)
	}
	assert.True(t, r.expired(of(`"2024"`, "2023"), now))
	assert.False(t, r.expired(of(`"2023"`, "2024"), now))
	assert.False(t, r.expired([]byte{1}, now), "no code")
	for i := range seenPartitions + 10 {
		assert.False(t, r.ahead(of(`"`+time.Unix(int64(i), 0).UTC().Format(time.RFC3339)+`"`, "2025"), now))
	}
	assert.LessOrEqual(t, len(r.seen), seenPartitions)
}

func TestRetentionRefusals(t *testing.T) {
	s := timeSchema(t, record.String)
	_, err := NewRetention(s, AutoPartition{Column: "id", TimeUnit: "week", TimeZone: "Mars/Olympus", Format: "yyyyww"})
	for _, want := range []string{`"id" is not a partition column`, "retention 0", `"week"`, "Mars/Olympus", "ww is none of"} {
		require.ErrorContains(t, err, want)
	}
	for format, want := range map[string]string{
		"yyyyMM": "a partition by day needs d", "MMdd": "needs y", "yyyyMMdd'": "quote is not closed", "yyyyMMMdd": "MMM is none of", "yyyy-yyyy-MM-dd": "comes twice", "T": "T is none of",
	} {
		_, err := NewRetention(s, AutoPartition{Column: "dt", TimeUnit: "day", Retention: 1, Format: format})
		require.ErrorContains(t, err, want, format)
	}
	_, err = NewRetention(s, AutoPartition{Column: "nope", TimeUnit: "day", Retention: 1})
	require.ErrorContains(t, err, `"nope"`)
}

func TestRetentionNow(t *testing.T) {
	r, err := NewRetention(timeSchema(t, record.Int), AutoPartition{Column: "dt", TimeUnit: "year", Retention: 1})
	require.NoError(t, err)
	assert.True(t, r.Expired(partitionOf(t, record.Int, "1999")))
	assert.False(t, r.Ahead(partitionOf(t, record.Int, "1999")))
	assert.True(t, r.Ahead(partitionOf(t, record.Int, "9999")))
}
